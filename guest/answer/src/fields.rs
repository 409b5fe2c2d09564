//! The fields of a query: their values in a record, and whether any record has them.

use lro_contract::query::document::shown;
use lro_json::path::{self, Step};
use lro_json::walk::{self, Damaged};

use crate::find::{Finder, Record};
use crate::{ExtractError, near};

/// Index of a field in [`Fields`].
pub(crate) type FieldId = usize;

#[derive(Clone, Debug)]
struct Field {
    spelled: String,
    steps: Vec<Step>,
    /// Behind those: for each `[]`, the steps from an element of the array on.
    elements: Elements,
    /// Index of the member that the first step leads to; `None` for the whole record.
    member: Option<usize>,
}

/// The steps behind each `[]` of a field.
pub(crate) type Elements = Vec<Vec<Step>>;

/// All fields of a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    /// Keys of the first steps of the fields.
    members: Vec<Vec<u8>>,
    /// The fields that no record had so far.
    unseen: Vec<FieldId>,
    /// For groups, the only valid fields.
    names: Option<Vec<String>>,
}

impl Fields {
    /// The fields of results with these keys.
    pub(crate) fn of_groups(names: Vec<String>) -> Self {
        Self { names: Some(names), ..Self::default() }
    }

    /// Adds a field.
    pub(crate) fn add(&mut self, spelled: &str) -> Result<FieldId, ExtractError> {
        let mut steps = path::steps(spelled);
        if let Some(names) = &self.names {
            let has = |name: &[u8]| names.iter().any(|there| there.as_bytes() == name);
            steps = match steps.as_slice() {
                _ if has(spelled.as_bytes()) => vec![Step::new(spelled.to_owned())],
                [] => Vec::new(),
                [step] if has(&step.key) => steps,
                _ => return Err(near::ranked(spelled, names.clone())),
            };
        }
        Ok(self.add_steps(spelled.to_owned(), steps))
    }

    /// Adds a field whose `[]` stand for the elements of arrays. Returns what is behind them.
    pub(crate) fn add_with_elements(&mut self, spelled: &str) -> Result<(FieldId, Elements), ExtractError> {
        match elements(spelled).filter(|_| self.names.is_none()) {
            Some((steps, elements)) => Ok((self.add_field(spelled.to_owned(), steps, elements.clone()), elements)),
            None => Ok((self.add(spelled)?, Vec::new())),
        }
    }

    /// Adds a field by its steps.
    pub(crate) fn add_steps(&mut self, spelled: String, steps: Vec<Step>) -> FieldId {
        self.add_field(spelled, steps, Vec::new())
    }

    fn add_field(&mut self, spelled: String, steps: Vec<Step>, elements: Elements) -> FieldId {
        if let Some(id) = self.fields.iter().position(|field| field.steps == steps && field.elements == elements) {
            return id;
        }
        let member = steps.first().map(|step| self.member(&step.key));
        self.fields.push(Field { spelled, steps, elements, member });
        let id = self.fields.len() - 1;
        self.unseen.push(id);
        id
    }

    fn member(&mut self, key: &[u8]) -> usize {
        if let Some(index) = self.members.iter().position(|member| member == key) {
            return index;
        }
        self.members.push(key.to_vec());
        self.members.len() - 1
    }

    /// A finder of the first steps of the fields.
    pub(crate) fn finder(&self) -> Finder {
        Finder::new(&self.members)
    }

    /// The text from the value of a field on: of one with `[]`, of the outermost array.
    #[inline(always)]
    pub(crate) fn value<'a>(&self, record: &Record<'a>, id: FieldId) -> Result<Option<&'a [u8]>, Damaged> {
        let Some(field) = self.fields.get(id) else { return Ok(None) };
        let line = record.line;
        match (line.first(), field.member) {
            (Some(b'{'), Some(member)) => {
                let Some(at) = record.member(member) else { return Ok(None) };
                let at = if line.get(at).is_some_and(|byte| *byte <= b' ') { walk::skip_white(line, at) } else { at };
                match field.steps.get(1..) {
                    Some(steps) if !steps.is_empty() => Ok(path::find(line, at, steps)?.and_then(|at| line.get(at..))),
                    _ => Ok(line.get(at..)),
                }
            }
            _ => Ok(path::find(line, walk::skip_white(line, 0), &field.steps)?.and_then(|at| line.get(at..))),
        }
    }

    /// Records which fields a record has.
    #[inline(always)]
    pub(crate) fn note(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        if self.unseen.is_empty() { Ok(()) } else { self.note_unseen(record) }
    }

    fn note_unseen(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        let mut unseen = Vec::with_capacity(self.unseen.len());
        for id in std::mem::take(&mut self.unseen) {
            let elements = self.fields.get(id).map_or([].as_slice(), |field| &field.elements);
            let is_there = match self.value(record, id)? {
                Some(value) => any_element(value, elements, &mut |_| Ok(true))?,
                None => false,
            };
            if !is_there {
                unseen.push(id);
            }
        }
        self.unseen = unseen;
        Ok(())
    }

    /// The fields that no record had.
    pub(crate) fn unseen(&self) -> &[FieldId] {
        &self.unseen
    }

    /// Records which fields other records did not have.
    pub(crate) fn keep_unseen(&mut self, others: &[FieldId]) {
        self.unseen.retain(|id| others.contains(id));
    }

    /// A field as the query writes it.
    pub(crate) fn spelled(&self, id: FieldId) -> &str {
        self.fields.get(id).map_or("", |field| field.spelled.as_str())
    }

    /// A field as notes name it.
    pub(crate) fn shown(&self, id: FieldId) -> String {
        match self.spelled(id) {
            "" => ".".to_owned(),
            spelled => shown(spelled),
        }
    }

    /// A field that no record had, as the query writes it.
    pub(crate) fn first_unseen(&self) -> Option<&str> {
        self.fields.get(*self.unseen.first()?).map(|field| field.spelled.as_str())
    }
}

/// The steps before the first `[]` of a field, and those behind each; `None` for a field without any, and for a JSON Pointer.
fn elements(spelled: &str) -> Option<(Vec<Step>, Elements)> {
    let (array, rest) = spelled.split_once("[]").filter(|(array, _)| !array.starts_with('/'))?;
    let behind = |rest: &str| match rest.strip_prefix('.') {
        Some(keys) => Some(path::steps(keys)),
        None => rest.is_empty().then(Vec::new),
    };
    Some((path::steps(array), rest.split("[]").map(behind).collect::<Option<_>>()?))
}

/// Whether a value passes: the one given, or any that `elements` lead to from it.
pub(crate) fn any_element(
    value: &[u8],
    elements: &[Vec<Step>],
    passes: &mut dyn FnMut(&[u8]) -> Result<bool, Damaged>,
) -> Result<bool, Damaged> {
    let Some((steps, inner)) = elements.split_first() else { return passes(value) };
    if value.first() != Some(&b'[') {
        return Ok(false);
    }
    any(value, |element| match path::find(element, 0, steps)? {
        Some(at) => any_element(element.get(at..).unwrap_or_default(), inner, passes),
        None => Ok(false),
    })
}

/// Whether an element of an array passes.
#[inline(always)]
pub(crate) fn any(array: &[u8], mut passes: impl FnMut(&[u8]) -> Result<bool, Damaged>) -> Result<bool, Damaged> {
    let mut found = false;
    walk::elements(array, 0, |element| {
        found = found || passes(array.get(element..).unwrap_or_default())?;
        Ok(())
    })?;
    Ok(found)
}
