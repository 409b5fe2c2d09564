//! Cuts a JSON text to its first whole records, as one JSON object within a budget, in one pass.

use lro_jsonl::{Document, Options, Splitter};
use lro_payload::{PayloadReader, SLICE_BYTES_MAX};

use super::budget::Budget;
use super::records::{Copies, Records};
use super::text::quoted;

/// Bytes of text read at a time.
const SLICE_BYTES: u32 = 256 << 10;

/// Longest member outside the sections that stays whole, in bytes.
const INLINE_BYTES: usize = 1 << 10;

/// Limit on all of those together, in bytes.
const INLINE_TOTAL_BYTES: usize = 16 << 10;

/// Largest reserve for them, in the unit of the budget.
const INLINE_SHARE_MAX: u64 = 2_000;

/// Default warning.
const WARNING: &str = "larger than the limit: only the first records are here";

/// The longest end of the object, without the entries of `omitted`.
const END: &str = r#","omitted":{},"omitted_members":18446744073709551615}"#;

/// The object `{"offloaded":false,"warning":…,POINTER:[…],…,"omitted":{POINTER:n,…}}`, spent on the budget.
///
/// `None` when the text is not a JSON object or array, when the budget is too small, or when nothing fits and only one
/// copy is needed: then the beginning of the text is more useful.
pub(super) fn cut(
    reader: &mut PayloadReader,
    part: u32,
    budget: &mut Budget,
    copies: Copies,
    warning: &str,
) -> Option<String> {
    let warning = if warning.is_empty() { WARNING } else { warning };
    let mut object = format!(r#"{{"offloaded":false,"warning":{}"#, quoted(warning));
    let mut records = Records::new(budget.clone(), copies);
    if !records.take(&object) || !records.take(END) {
        return None;
    }
    let size = reader.payload().parts().get(part as usize)?.size();
    let prefix = reader.read_text(part, 0, SLICE_BYTES_MAX).ok()?;
    if !prefix.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let sections = lro_jsonl::survey(&prefix, prefix.len() as u64 == size).ok()?;
    drop(prefix);
    records.sections_left = sections.len() as u64;
    // Small members come after the records, which would use up the budget.
    records.reserved = INLINE_SHARE_MAX.min(records.budget.left() / 8);
    let options =
        Options { sections, inline_bytes: INLINE_BYTES, inline_total: INLINE_TOTAL_BYTES, ..Options::default() };
    let document = split(reader, part, options, &mut records)?;
    records.reserved = 0;
    let before = object.len();
    for (pointer, value) in &document.inline {
        let member = format!(",{}:{value}", quoted(pointer));
        if records.take(&member) {
            object.push_str(&member);
        } else {
            records.unnamed += 1;
        }
    }
    if copies == Copies::One && object.len() == before && records.is_empty() {
        return None;
    }
    records.write_to(&mut object);
    *budget = records.budget;
    Some(object)
}

/// Splits the part in one pass; `None` when it is not JSON.
fn split(reader: &mut PayloadReader, part: u32, options: Options, records: &mut Records) -> Option<Document> {
    let mut splitter = Splitter::new(options, records);
    let mut offset = 0;
    loop {
        let slice = reader.read_text(part, offset, SLICE_BYTES).ok()?;
        if slice.is_empty() {
            return splitter.finish().ok().map(|(document, _)| document);
        }
        splitter.push(&slice).ok()?;
        offset += slice.len() as u64;
    }
}
