//! Input that a server asks for in the middle of a job whose client cannot be reached.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INTERNAL_ERROR, Id, Message, method};
use serde_json::value::RawValue;

/// What is kept of the questions of one job, which each status of the job shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputLimits {
    /// Most questions at a time.
    pub(crate) count: u32,
    /// Most bytes of one.
    pub(crate) bytes: u64,
}

impl InputLimits {
    fn exceeded(&self) -> String {
        let Self { count, bytes } = self;
        format!("at most {count} requests (gateway.job-inputs) of {bytes} bytes (gateway.job-input-bytes) are kept")
    }
}

/// Requests of a server that clients answer with what a person or a model says, each with the capability that the client
/// declares.
pub(crate) const METHODS: [(&str, &str); 3] =
    [(method::ELICITATION, "elicitation"), (method::SAMPLING, "sampling"), (method::ROOTS_LIST, "roots")];

/// A request of the server that waits for a client.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// What a client names it by: the id of the request, or its key in a result.
    pub(crate) key: String,
    /// The id of the request, if the server has sent one.
    id: Option<Id>,
    pub(crate) method: String,
    /// JSON, if there are any.
    pub(crate) params: Option<Box<RawValue>>,
    /// Tells the questions of a job apart, as a server may use a key again.
    pub(crate) number: u64,
    asked: Instant,
}

impl Question {
    /// Reads a request of the server; `None` if it does not ask for input.
    pub(crate) fn read(request: &Message) -> Option<Self> {
        let method = request.method().filter(|method| asks_for_input(method))?.into_owned();
        let params = request.value(&["params"]).and_then(|params| serde_json::from_slice(&params).ok());
        let id = request.id()?;
        let key = serde_json::from_str(id.json()).unwrap_or_else(|_| id.json().to_owned());
        Some(Self { key, id: Some(id), method, params, number: 0, asked: Instant::now() })
    }

    /// A request that a result has under this key.
    ///
    /// # Errors
    /// When it does not ask for input.
    pub(crate) fn of_result(key: String, method: String, params: Option<Box<RawValue>>) -> Result<Self, String> {
        if !asks_for_input(&method) {
            let expected = METHODS.map(|(method, _)| method).join(", ");
            return Err(format!("`{method}` is nothing that clients give: expected one of {expected}"));
        }
        Ok(Self { key, id: None, method, params, number: 0, asked: Instant::now() })
    }

    fn fits(&self, limits: InputLimits) -> bool {
        self.params.as_ref().is_none_or(|params| params.get().len() as u64 <= limits.bytes)
    }

    /// The response with an error, if the server has sent a request.
    fn refused(&self, reason: &str) -> Option<Bytes> {
        self.id.as_ref().map(|id| mcp::error_response(Some(id), INTERNAL_ERROR, reason))
    }
}

/// The open questions of a job, and what its server is to get.
#[derive(Debug, Default)]
pub(super) struct Input {
    questions: Vec<Question>,
    responses: Vec<Bytes>,
    /// The results for requests of a result so far, by their keys.
    given: BTreeMap<String, Box<RawValue>>,
    /// Why a client does not answer a request of a result.
    refused: Option<String>,
    /// Number of questions so far.
    count: u64,
}

impl Input {
    pub(super) fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Keeps a question. The server gets an error for one that is too large, or one too many.
    pub(super) fn ask(&mut self, question: Question, limits: InputLimits) {
        if !question.fits(limits) || self.questions.len() >= limits.count as usize {
            return self.responses.extend(question.refused(&format!("no client waits; {}", limits.exceeded())));
        }
        self.keep(question);
    }

    /// Keeps the questions of a result.
    ///
    /// # Errors
    /// When one is too large, or they are too many.
    pub(super) fn ask_all(&mut self, questions: Vec<Question>, limits: InputLimits) -> Result<(), String> {
        let all = self.questions.len() + questions.len();
        if all > limits.count as usize || !questions.iter().all(|question| question.fits(limits)) {
            return Err(limits.exceeded());
        }
        questions.into_iter().for_each(|question| self.keep(question));
        Ok(())
    }

    fn keep(&mut self, question: Question) {
        self.count += 1;
        self.questions.push(Question { number: self.count, ..question });
    }

    /// The results for the questions of a result, once all are there, or why a client does not give one.
    pub(super) fn take_given(&mut self) -> Option<Result<BTreeMap<String, Box<RawValue>>, String>> {
        if let Some(reason) = self.refused.take() {
            return Some(Err(reason));
        }
        let is_complete = !self.given.is_empty() && self.questions.iter().all(|question| question.id.is_some());
        is_complete.then(|| Ok(std::mem::take(&mut self.given)))
    }

    /// Takes back the questions of a result.
    pub(super) fn take_back(&mut self) {
        self.questions.retain(|question| question.id.is_some());
        self.given.clear();
        self.refused = None;
    }

    /// Answers questions by their keys, all or none.
    ///
    /// # Errors
    /// A key that no question has.
    pub(super) fn give(&mut self, results: &BTreeMap<String, Box<RawValue>>) -> Result<(), String> {
        let keys: Vec<&str> = self.questions.iter().map(|question| question.key.as_str()).collect();
        if let Some(unknown) = results.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err(format!("the job asks for no input `{unknown}`: it asks for [{}]", keys.join(", ")));
        }
        self.give_known(results);
        Ok(())
    }

    /// Answers the questions that have these keys.
    pub(super) fn give_known(&mut self, results: &BTreeMap<String, Box<RawValue>>) {
        for question in self.questions.extract_if(.., |question| results.contains_key(&question.key)) {
            let Some(result) = results.get(&question.key) else { continue };
            match &question.id {
                Some(id) => self.responses.push(mcp::response(id, result.get())),
                None => drop(self.given.insert(question.key, result.clone())),
            }
        }
    }

    /// Answers the question of this number with the response of a client, unless it has an answer already.
    pub(super) fn respond(&mut self, number: u64, response: &Message) {
        let Some(index) = self.questions.iter().position(|question| question.number == number) else { return };
        let Question { key, id, .. } = self.questions.remove(index);
        if let Some(id) = id {
            return self.responses.push(response.with_id(&id));
        }
        let result = response.result().filter(|result| result.starts_with(b"{"));
        match result.and_then(|result| serde_json::from_slice(&result).ok()) {
            Some(result) => drop(self.given.insert(key, result)),
            None => {
                let error = response.value(&["error", "message"]).unwrap_or_default();
                let error = String::from_utf8_lossy(&error);
                self.refused = Some(format!("a client answered `{key}` without a result: {error}"));
            }
        }
    }

    /// Takes back a question that the server has canceled.
    pub(super) fn withdraw(&mut self, id: &Id) {
        self.questions.retain(|question| question.id.as_ref() != Some(id));
    }

    /// What the server is to get now: answers, and errors for questions that nobody answered in this time.
    pub(super) fn take(&mut self, patience: Duration) -> Vec<Bytes> {
        let reason = format!("no client gave the input within {} s (gateway.job-input-seconds)", patience.as_secs());
        let is_late = |question: &mut Question| question.id.is_some() && question.asked.elapsed() > patience;
        let late = self.questions.extract_if(.., is_late);
        self.responses.extend(late.filter_map(|question| question.refused(&reason)));
        std::mem::take(&mut self.responses)
    }
}

fn asks_for_input(method: &str) -> bool {
    METHODS.iter().any(|(known, _)| *known == method)
}
