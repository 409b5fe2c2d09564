//! Lines of a text or records, by their numbers.

use lro_json::write::string;
use lro_text::search::LineReader;

use crate::answer::Lines;
use crate::bindings::exports::lro::filter::lro_query::LineRange;
use crate::bindings::lro::filter::types::FileKind;
use crate::{Answer, Budget, ExtractError, Read, Source, lines};

pub(crate) fn run(
    source: &Source,
    range: LineRange,
    budget: Budget,
    read: &mut Read<'_>,
) -> Result<Answer, ExtractError> {
    if source.kind == FileKind::Bytes {
        return Err(ExtractError::Invalid(format!("source: {} has bytes, and no lines", source.name)));
    }
    let LineRange { first, last } = range;
    let mut reader = LineReader::new(first, last).map_err(|error| ExtractError::Invalid(error.to_string()))?;
    lines::each_slice(source, read, |slice| reader.push(slice))?;
    let found = reader.finish();
    if !found.complete && first < 0 {
        let message = "lines-bytes: the lines that are counted from the end have more than 1 MiB together";
        return Err(ExtractError::Limit(message.to_owned()));
    }
    let number = |line: i64| match u64::try_from(line) {
        Ok(line) => line,
        Err(_) => (found.total + 1).saturating_sub(line.unsigned_abs()),
    };
    let total = (number(last).min(found.total) + 1).saturating_sub(number(first).max(1));
    let mut lines = Lines::new(budget);
    for line in &found.lines {
        lines.push(&format!("{{\"line\":{},\"text\":{}}}", line.line, string(&line.text)));
    }
    Ok(lines.answer(total, total, found.total))
}
