//! What a profile tells about one field.

/// One field of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The keys that lead to it; empty when the record itself is a scalar or an array.
    pub path: Vec<Key<'a>>,
    /// Objects that have it, a duplicate key counted once; so for a top-level field, records.
    pub present: u64,
    /// How often it had which type, every occurrence counted.
    pub types: Types,
    /// The least number as it was written; `None` without numbers or when one exceeds
    /// [`NUMBER_BYTES_MAX`](crate::NUMBER_BYTES_MAX).
    pub minimum: Option<&'a str>,
    /// The greatest number, likewise.
    pub maximum: Option<&'a str>,
    /// The strings, booleans and integers it had, in order of first appearance; `None` when there are more than
    /// [`DISTINCT_MAX`](crate::DISTINCT_MAX) or one exceeds [`DISTINCT_BYTES_MAX`](crate::DISTINCT_BYTES_MAX). Two
    /// spellings of one value (`"a"`, `"\u0061"`) are two values. Nulls, other numbers and containers are not in it:
    /// `types` has their counts.
    pub distinct: Option<Vec<Distinct<'a>>>,
}

/// One key of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The key as it stands between its quotes in JSON; one with escapes is spelled in their shortest form.
    pub raw: &'a str,
    /// Whether `raw` contains escapes.
    pub escaped: bool,
}

/// One distinct value and how often it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distinct<'a> {
    /// The value as it was written, a string with its quotes.
    pub json: &'a str,
    /// Occurrences.
    pub count: u64,
}

/// Occurrences of each type. [`Types::integers`] are numbers written without `.` and exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field says it all")]
pub struct Types {
    pub nulls: u64,
    pub booleans: u64,
    pub integers: u64,
    pub decimals: u64,
    pub strings: u64,
    pub arrays: u64,
    pub objects: u64,
}

impl Types {
    /// All occurrences.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.nulls + self.booleans + self.integers + self.decimals + self.strings + self.arrays + self.objects
    }
}
