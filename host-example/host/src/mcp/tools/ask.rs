//! A question that comes with the call of a tool, and is answered if the result of the call is offloaded.

use lro_reading::tool::{self, Asked, Failure};

use super::Tools;
use crate::store::Offload;

/// A question about the result of a call: the arguments of `lro_extract` without `handle`.
#[derive(Debug)]
pub struct ToolQuestion {
    section: Option<String>,
    asked: Asked,
}

impl ToolQuestion {
    /// Reads the JSON object of a question, or a JSON string with its text, as some models write it.
    ///
    /// # Errors
    /// What is wrong, for the model. What only shows on the data, such as a field that no record has, is an error of
    /// [`Tools::answer`]; so are programs of jq and regular expressions.
    pub fn read(json: &str) -> Result<Self, String> {
        let text = serde_json::from_str::<String>(json);
        let read = tool::question(text.as_deref().unwrap_or(json));
        read.map(|(section, asked)| Self { section, asked }).map_err(Failure::message)
    }
}

impl Tools {
    /// Answers a question about an offload: what `lro_extract` answers, as JSON. Use it inside a
    /// [`Job`](crate::job::Job): it reads files, so it yields first.
    ///
    /// # Errors
    /// Why there is no answer, for the model.
    pub async fn answer(&self, tenant: &str, offload: &Offload, question: &ToolQuestion) -> Result<String, String> {
        let ToolQuestion { section, asked } = question;
        self.answer_about(tenant, offload, section.clone(), asked.clone()).await.map_err(Failure::message)
    }
}
