//! Input that a server asks for in the middle of a job whose client cannot be reached.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INTERNAL_ERROR, Id, Message};
use serde_json::value::RawValue;

/// Most questions of one job at a time: a server usually asks one.
const QUESTIONS_MAX: usize = 16;

/// Largest question in bytes, as each status of the job shows it.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// Requests of a server that clients answer with what a person or a model says.
const METHODS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// A request of the server that waits for a client.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    id: Id,
    pub(crate) method: String,
    /// JSON, if there are any.
    pub(crate) params: Option<Box<RawValue>>,
    asked: Instant,
}

impl Question {
    /// Reads a request of the server; `None` if it does not ask for input.
    pub(crate) fn read(request: &Message) -> Option<Self> {
        let method = request.method().filter(|method| METHODS.contains(&method.as_ref()))?.into_owned();
        let params = request.value(&["params"]).and_then(|params| serde_json::from_slice(&params).ok());
        Some(Self { id: request.id()?, method, params, asked: Instant::now() })
    }

    /// What a client names it by: the id of the request.
    pub(crate) fn key(&self) -> String {
        serde_json::from_str(self.id.json()).unwrap_or_else(|_| self.id.json().to_owned())
    }

    fn refused(&self, reason: &str) -> Bytes {
        mcp::error_response(Some(&self.id), INTERNAL_ERROR, reason)
    }
}

/// The open questions of a job, and what its server is to get.
#[derive(Debug, Default)]
pub(super) struct Input {
    questions: Vec<Question>,
    responses: Vec<Bytes>,
}

impl Input {
    pub(super) fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Keeps a question. The server gets an error for one that is too large, or one too many.
    pub(super) fn ask(&mut self, question: Question) {
        let bytes = question.params.as_ref().map_or(0, |params| params.get().len());
        if bytes > QUESTION_BYTES_MAX || self.questions.len() >= QUESTIONS_MAX {
            let reason =
                format!("no client waits; at most {QUESTIONS_MAX} requests of {QUESTION_BYTES_MAX} bytes are kept");
            return self.responses.push(question.refused(&reason));
        }
        self.questions.push(question);
    }

    /// Answers questions by their keys, all or none.
    ///
    /// # Errors
    /// A key that no question has.
    pub(super) fn give(&mut self, results: &BTreeMap<String, Box<RawValue>>) -> Result<(), String> {
        let keys: Vec<String> = self.questions.iter().map(Question::key).collect();
        if let Some(unknown) = results.keys().find(|key| !keys.contains(key)) {
            return Err(format!("the job asks for no input `{unknown}`: it asks for [{}]", keys.join(", ")));
        }
        for question in self.questions.extract_if(.., |question| results.contains_key(&question.key())) {
            let result = results.get(&question.key()).map_or("{}", |result| result.get());
            self.responses.push(mcp::response(&question.id, result));
        }
        Ok(())
    }

    /// Takes back a question that the server has canceled.
    pub(super) fn withdraw(&mut self, id: &Id) {
        self.questions.retain(|question| question.id != *id);
    }

    /// What the server is to get now: answers, and errors for questions that nobody answered in this time.
    pub(super) fn take(&mut self, patience: Duration) -> Vec<Bytes> {
        let reason = format!("no client gave the input within {} s (gateway.job-input-seconds)", patience.as_secs());
        let late = self.questions.extract_if(.., |question| question.asked.elapsed() > patience);
        self.responses.extend(late.map(|question| question.refused(&reason)));
        std::mem::take(&mut self.responses)
    }
}
