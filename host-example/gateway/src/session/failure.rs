//! Errors of a server, which may be cut to their beginning and end.

use lro_host::mcp::{self, INTERNAL_ERROR, Message};

use super::Session;
use super::ceiling::SHORTER_MAX;
use crate::settings::{DecisionMode, PolicySettings, Size};

impl Session {
    /// The size above which an error is cut.
    fn error_limit(&self) -> Option<Size> {
        self.limit(self.rules.config.error_limit)
    }

    /// The response, or, if it is an error above `error-limit`, one with the beginning and the end of its text.
    pub(super) fn bounded_error(&self, message: Message) -> Message {
        let (Some(code), Some(limit)) = (message.error_code(), self.error_limit()) else { return message };
        let tokenizer = self.client().tokenizer;
        if !tokenizer.exceeds(message.bytes(), limit) {
            return message;
        }
        let code = i32::try_from(code).unwrap_or(INTERNAL_ERROR);
        let whole = message.bytes().len();
        let text = message.error_text().unwrap_or_default();
        let error = |text: &str| mcp::error_response(message.id().as_ref(), code, text);
        let note = format!("[the error has {whole} bytes, more than the setting `error-limit` allows]");
        // The data may be what is large.
        let mut shorter = error(&format!("{text} {note}"));
        let mut length = text.len() as u64;
        for _ in 0..SHORTER_MAX {
            let Some(size) = tokenizer.size_beyond(&shorter, limit) else { return Message::read(shorter) };
            // A bit less than its share, for what does not shrink.
            length = length.saturating_mul(limit.amount) / size.max(1) / 8 * 7;
            let (head, tail) = ends(&text, usize::try_from(length).unwrap_or(usize::MAX));
            shorter = error(&format!("{head}… {note} …{tail}"));
        }
        Message::read(if tokenizer.exceeds(&shorter, limit) { error(&note) } else { shorter })
    }

    /// The settings for the result of a tool with `isError`: above `error-limit` it is truncated to that.
    pub(super) fn bound_error(&self, settings: &mut PolicySettings) {
        if let (Some(limit), DecisionMode::BySize) = (self.error_limit(), settings.mode) {
            settings.threshold = limit;
            settings.truncate_limit = limit;
        }
    }
}

/// The beginning and the end of a text, of about this many bytes together: three quarters are the beginning.
fn ends(text: &str, bytes: usize) -> (&str, &str) {
    let head = text.floor_char_boundary(bytes.min(text.len()) / 4 * 3);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(bytes / 4)).max(head);
    (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default())
}
