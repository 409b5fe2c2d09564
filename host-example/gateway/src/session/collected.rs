//! The result that collected pages become, while it grows.

use std::sync::Arc;

use bytes::Bytes;
use lro_host::mcp::{Id, PageForm, ToolPage};
use lro_json::write::{push_escaped, string};
use lro_transport::{MessageLimits, Spool, SpoolError};

/// Longest structured content, in bytes, that gets a copy as text, for clients that read nothing else: 256 KiB. What is
/// longer is written to files by any usual threshold.
const COPY_BYTES_MAX: usize = 256 << 10;

/// A response with one list, in the form of its pages.
#[derive(Debug)]
pub(super) struct CollectedResult {
    spool: Spool,
    form: PageForm,
    /// The document so far, as long as it is copied.
    copy: Option<String>,
}

impl CollectedResult {
    /// Begins with the first page.
    pub(super) fn new(limits: &Arc<MessageLimits>, id: &Id, page: &ToolPage) -> Result<Self, SpoolError> {
        let mut spool = Spool::new(Arc::clone(limits));
        let beginning = match page.form {
            PageForm::Structured { .. } => r#""structuredContent":"#,
            PageForm::Text => r#""content":[{"type":"text","text":""#,
        };
        spool.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{beginning}"#).as_bytes())?;
        let has_copy = page.form == PageForm::Structured { has_text: true };
        let mut whole = Self { spool, form: page.form, copy: has_copy.then(String::new) };
        whole.write(&page.opening())?;
        whole.write(page.items())?;
        Ok(whole)
    }

    /// Appends another page.
    pub(super) fn push(&mut self, page: &ToolPage) -> Result<(), SpoolError> {
        self.write(",")?;
        self.write(page.items())
    }

    /// Ends with what stands around the items of the last page, and the member `collected`.
    pub(super) fn finish(mut self, last: &ToolPage, collected: &str, modern: bool) -> Result<Bytes, SpoolError> {
        self.write(&last.closing("collected", collected))?;
        let text = match (self.form, self.copy.take()) {
            (PageForm::Text, _) => "\"}]".to_owned(),
            (PageForm::Structured { has_text: false }, _) => r#","content":[]"#.to_owned(),
            (PageForm::Structured { has_text: true }, copy) => {
                let text = copy.unwrap_or_else(|| format!("collected: {collected}"));
                format!(r#","content":[{{"type":"text","text":{}}}]"#, string(&text))
            }
        };
        self.spool.push(text.as_bytes())?;
        self.spool.push(if modern { br#","resultType":"complete"}}"# } else { b"}}" })?;
        self.spool.finish()
    }

    fn write(&mut self, json: &str) -> Result<(), SpoolError> {
        if self.copy.as_ref().is_some_and(|copy| copy.len() + json.len() > COPY_BYTES_MAX) {
            self.copy = None;
        }
        if let Some(copy) = &mut self.copy {
            copy.push_str(json);
        }
        if self.form != PageForm::Text {
            return self.spool.push(json.as_bytes());
        }
        let mut escaped = String::with_capacity(json.len() + json.len() / 8);
        push_escaped(&mut escaped, json);
        self.spool.push(escaped.as_bytes())
    }
}
