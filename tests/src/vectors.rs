//! Vectors: calls of a policy and their complete results, which every runtime must reproduce byte for byte.
//!
//! Each is a JSON file in `tests/vectors`; [`Vector::outcome`] generates its text with the Rust host. The members are
//! `description`, `call`, `parts`, `verdict` or `error`, and, for an offload, `descriptor` or `write-error`, and
//! `files`. Values of the contract are encoded as follows: a record is an object with the names of the WIT, where an
//! absent option is an absent member; an enum, or a case without payload, is a string; a case with payload is an object
//! of one member; flags are an array.

mod cases;
mod json;
mod kinds;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
pub use cases::{LARGE, default_policy, redacting_policy};
use lro_host::filter::Request;
use lro_host::policy::{Digest, Policy};
use lro_host::sandbox::{CallError, Limits, Part, PartKind, Payload, Verdict, Written};
use lro_host::settings::PolicySettings;
use serde_json::{Map, Value, json};

use crate::{call_of, request, workspace};

/// Most bytes of a file whose text a vector contains besides its digest.
const SHOWN_BYTES_MAX: usize = 16 * 1024;

/// The data of a part.
pub enum Content {
    /// Text in the vector.
    Text(String),
    /// Bytes in the vector, as base64.
    Bytes(Vec<u8>),
    /// Text too long for a vector: the name of its file in the folder of inputs, and the text.
    Input(String, String),
}

/// One part of a tool result.
pub struct Input {
    kind: PartKind,
    media_type: Option<String>,
    name: Option<String>,
    content: Content,
}

/// A call of a policy.
pub struct Vector {
    /// Name of its file without `.json`.
    pub name: String,
    /// The behaviour it shows.
    pub description: String,
    request: Request,
    parts: Vec<Input>,
}

impl Vector {
    fn new(name: &str, description: &str, settings: PolicySettings, parts: Vec<Input>) -> Self {
        let mut request = request(settings);
        request.tenant = "vectors".to_owned();
        request.tool = "search".to_owned();
        Self { name: name.to_owned(), description: description.to_owned(), request, parts }
    }

    /// The folder of the default policy's vectors; those of any other policy are in a subfolder with its name.
    pub fn folder() -> PathBuf {
        workspace().join("tests/vectors")
    }

    /// Names and texts of the inputs that are too long for a vector.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::Input(name, text) => Some((name.as_str(), text.as_str())),
            _ => None,
        })
    }

    /// The content of the vector's file: the call, and its result with this policy in an empty directory.
    pub fn outcome(&self, policy: &Policy, directory: &Path) -> String {
        let (call, payload) = (call_of(self.request.clone()), self.payload());
        let mut vector = Map::new();
        vector.insert("description".to_owned(), self.description.clone().into());
        vector.insert("call".to_owned(), json::call(&self.request, &call));
        vector.insert("parts".to_owned(), self.parts.iter().map(Input::json).collect());
        let limits = Limits::default();
        let inspected = policy.prepared().inspect(&limits, &call, &payload).map(|(verdict, _)| verdict);
        if let Ok(Verdict::Offload(plan)) = &inspected {
            let written = policy.prepared().write(&limits, &call, &payload, plan, directory);
            match policy_answer(written) {
                Ok((Written { descriptor, .. }, _)) => {
                    vector.insert("descriptor".to_owned(), json::descriptor(&descriptor));
                    vector.insert("files".to_owned(), files(directory));
                }
                Err(error) => drop(vector.insert("write-error".to_owned(), error)),
            }
        }
        match policy_answer(inspected) {
            Ok(verdict) => vector.insert("verdict".to_owned(), json::verdict(&verdict)),
            Err(error) => vector.insert("error".to_owned(), error),
        };
        let mut text = serde_json::to_string_pretty(&Value::Object(vector)).expect("a value is JSON");
        text.push('\n');
        text
    }

    /// Writes the planned files once, as a measurement.
    ///
    /// # Errors
    /// When the policy does not offload the result, or fails.
    pub fn writer<'a>(&self, policy: &'a Policy) -> Result<impl Fn(&Path) -> Result<(), CallError> + 'a, CallError> {
        let (call, payload, limits) = (call_of(self.request.clone()), self.payload(), Limits::default());
        let (verdict, _) = policy.prepared().inspect(&limits, &call, &payload)?;
        let Verdict::Offload(plan) = verdict else { panic!("{} is not offloaded", self.name) };
        Ok(move |directory: &Path| policy.prepared().write(&limits, &call, &payload, &plan, directory).map(drop))
    }

    fn payload(&self) -> Arc<Payload> {
        Arc::new(Payload::new(self.parts.iter().map(Input::part).collect()))
    }
}

impl Input {
    fn new(kind: PartKind, content: Content) -> Self {
        Self { kind, media_type: None, name: None, content }
    }

    fn part(&self) -> Part {
        let mut part = match &self.content {
            Content::Text(text) | Content::Input(_, text) => {
                Part::text(self.kind, Bytes::from(text.clone())).expect("a text is UTF-8")
            }
            Content::Bytes(bytes) => Part::binary(Bytes::from(bytes.clone())),
        };
        part.media_type.clone_from(&self.media_type);
        part.name.clone_from(&self.name);
        part
    }

    fn json(&self) -> Value {
        let mut part = Map::new();
        part.insert("kind".to_owned(), json::part_kind(self.kind).into());
        if let Some(media_type) = &self.media_type {
            part.insert("media-type".to_owned(), media_type.as_str().into());
        }
        if let Some(name) = &self.name {
            part.insert("name".to_owned(), name.as_str().into());
        }
        match &self.content {
            Content::Text(text) => part.insert("text".to_owned(), text.as_str().into()),
            Content::Bytes(bytes) => part.insert("base64".to_owned(), STANDARD.encode(bytes).into()),
            Content::Input(name, _) => part.insert("input".to_owned(), name.as_str().into()),
        };
        part.into()
    }
}

/// The answer, or the policy's error as JSON. Any other failure of a call is not part of a vector.
fn policy_answer<T>(answer: Result<T, CallError>) -> Result<T, Value> {
    answer.map_err(|error| match error {
        CallError::Policy(error) => json::policy_error(&error),
        other => panic!("the policy {other}"),
    })
}

/// Every file of a directory: its size, its digest, and its text unless it is long.
fn files(directory: &Path) -> Value {
    let mut files = Map::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let bytes = std::fs::read(entry.path()).expect("a file");
        let mut file = json!({ "bytes": bytes.len(), "sha256": Digest::of(&bytes).to_string() });
        if let (true, Ok(text)) = (bytes.len() <= SHOWN_BYTES_MAX, std::str::from_utf8(&bytes)) {
            file["text"] = text.into();
        }
        files.insert(entry.file_name().into_string().expect("a name in UTF-8"), file);
    }
    files.into()
}
