//! The profile of one field.

/// One field of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The keys that lead to it; empty when the record itself is a scalar or an array.
    pub path: Vec<Key<'a>>,
    /// Objects that have the field, which for a top-level field are records. A duplicate key counts once.
    pub present: u64,
    /// Occurrences of each type, with every occurrence of a duplicate key.
    pub types: Types,
    /// The least number as written; `None` without numbers or when one exceeds
    /// [`NUMBER_BYTES_MAX`](crate::NUMBER_BYTES_MAX).
    pub minimum: Option<&'a str>,
    /// The greatest number, likewise.
    pub maximum: Option<&'a str>,
    /// The distinct strings, booleans and integers, in order of first appearance; `None` when there are more than
    /// [`DISTINCT_MAX`](crate::DISTINCT_MAX) or one exceeds [`DISTINCT_BYTES_MAX`](crate::DISTINCT_BYTES_MAX). Two
    /// spellings of one value (`"a"`, `"\u0061"`) are two values. Nulls, other numbers and containers are counted in
    /// `types` only.
    pub distinct: Option<Vec<Distinct<'a>>>,
}

impl Field<'_> {
    /// Whether it has the same value, a string, a boolean, an integer or null, in each of so many records: that value.
    #[must_use]
    pub fn constant(&self, records: u64) -> Option<&str> {
        if records < 2 || self.types.sum() != records {
            return None;
        }
        match self.distinct.as_deref() {
            _ if self.types.nulls == records => Some("null"),
            Some([value]) if value.count == records => Some(value.json),
            _ => None,
        }
    }
}

/// One key of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The text between the quotes of the key in JSON, with every escape in its shortest form.
    pub raw: &'a str,
    /// Whether `raw` contains escapes.
    pub escaped: bool,
    /// Arrays between the value of the key and what follows in the path: 1 for the elements of an array, and for their fields.
    pub arrays: usize,
}

/// One distinct value and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distinct<'a> {
    /// The value as written; a string with its quotes.
    pub json: &'a str,
    /// Occurrences.
    pub count: u64,
}

/// Occurrences of each type. [`Types::integers`] counts numbers written without `.` and exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names describe the fields")]
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
