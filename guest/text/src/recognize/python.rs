//! Python's `repr`.

use super::{Form, Head};
use crate::readers::Reader;

/// A list, tuple or dict that is not JSON.
pub(super) fn literal(head: &Head<'_>) -> Option<Form> {
    if !head.text.starts_with(['[', '(', '{']) {
        return None;
    }
    let form = |document| Form::PythonLiteral { document };
    let tried = Reader::try_head(&form(false), head.text, head.complete)?;
    Some(form(tried.report.records < 2))
}
