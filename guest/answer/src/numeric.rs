//! Texts that are numbers, as in columns where one value is not.

use lro_json::walk::{self, Damaged};

use crate::json::{checked, is_number};

/// Calls `with` with the number that the string at the beginning of `value` is: as in JSON, blanks around it and leading zeros apart.
#[inline(always)]
pub(crate) fn with_number<T>(value: &[u8], with: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, Damaged> {
    let text = walk::string(value, 0)?.unescaped();
    Ok(with(number(&text)))
}

/// The number that a text is.
fn number(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    if !is_number(text) {
        return None;
    }
    let zeros = text.windows(2).take_while(|pair| matches!(pair, [b'0', b'0'..=b'9'])).count();
    text.get(zeros..).filter(|number| checked(number).is_ok())
}

/// The beginning of a note about so many texts.
pub(crate) fn texts_were(count: u64) -> String {
    if count == 1 { "1 text was".to_owned() } else { format!("{count} texts were") }
}
