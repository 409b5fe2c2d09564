//! Reports on filtered results, as JSON and as a table.

use lro_host::filter::{Decision, Offloaded, Outcome};
use lro_host::policy::{Digest, Policy};
use lro_host::sandbox::Cost;
use lro_host::store::{FileKind, FileRecord};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::columns;
use crate::truncate::sizes;

/// The output of `--json`, on one line. Unknown or inapplicable members are null.
#[derive(Serialize)]
pub(crate) struct Report {
    /// `pass`, `offload`, `truncate`, `reject` or `fail`.
    verdict: &'static str,
    id: Option<String>,
    directory: Option<String>,
    descriptor: Option<Box<RawValue>>,
    /// The reply; null if the input passes unchanged, or there is no reply.
    reply: Option<String>,
    files: Vec<File>,
    size: Size,
    reply_tokens: Option<u64>,
    tokens_saved: Option<u64>,
    inspect: Option<InspectCost>,
    write: Option<WriteCost>,
    policy: Option<PolicyVersion>,
    warning: Option<String>,
    error: Option<String>,
}

/// One file of an offload.
#[derive(Serialize)]
struct File {
    name: String,
    path: Option<String>,
    section: String,
    kind: FileKind,
    parts: Vec<u32>,
    pointer: Option<String>,
    media_type: String,
    records: u64,
    bytes: u64,
    sha256: Option<Digest>,
    digest_from: u64,
}

/// Size of the input. Binary input counts the characters and tokens of its base64 form.
#[derive(Serialize)]
struct Size {
    bytes: u64,
    characters: u64,
    tokens: u64,
}

#[derive(Serialize)]
struct InspectCost {
    micros: u128,
    memory_bytes: usize,
}

#[derive(Serialize)]
struct WriteCost {
    micros: u128,
    memory_bytes: usize,
    written_bytes: u64,
}

#[derive(Serialize)]
struct PolicyVersion {
    sha256: String,
    version: String,
}

impl Report {
    /// Creates a report with the verdict only.
    pub(crate) fn new(verdict: &'static str, input: &[u8], policy: Option<&Policy>) -> Self {
        let [bytes, characters, tokens] = sizes(input);
        Self {
            verdict,
            id: None,
            directory: None,
            descriptor: None,
            reply: None,
            files: Vec::new(),
            size: Size { bytes, characters, tokens },
            reply_tokens: None,
            tokens_saved: None,
            inspect: None,
            write: None,
            policy: policy.map(|policy| PolicyVersion {
                sha256: policy.digest().to_string(),
                version: policy.contract().version.clone(),
            }),
            warning: None,
            error: None,
        }
    }

    /// Adds the cost of the inspection.
    pub(crate) fn set_inspect_cost(&mut self, cost: Cost) {
        self.inspect = Some(InspectCost { micros: cost.time.as_micros(), memory_bytes: cost.memory_bytes });
    }

    /// Adds a decision. `failure` is why the policy's decision was not carried out.
    pub(crate) fn set_decision(&mut self, decision: &Decision, failure: Option<String>) {
        if let Some(cost) = decision.inspect {
            self.set_inspect_cost(cost);
        }
        self.write = decision.write.map(|cost| WriteCost {
            micros: cost.time.as_micros(),
            memory_bytes: cost.memory_bytes,
            written_bytes: cost.written_bytes,
        });
        match &decision.outcome {
            Outcome::Offload(offloaded) => self.offloaded(offloaded),
            Outcome::Fail(_) => self.error = failure,
            _ => self.warning = failure,
        }
    }

    fn offloaded(&mut self, offloaded: &Offloaded) {
        let offload = &offloaded.offload;
        self.id = Some(offload.id().to_string());
        self.directory = Some(offload.path().display().to_string());
        self.descriptor = RawValue::from_string(offloaded.descriptor.clone()).ok();
        self.files = offload.record().files.iter().map(|file| File::new(file, offload.path())).collect();
    }

    /// Adds the reply; `None` means that the input passes unchanged.
    pub(crate) fn set_reply(&mut self, reply: Option<&[u8]>) {
        let tokens = reply.map_or(self.size.tokens, |reply| sizes(reply)[2]);
        self.reply = reply.map(|reply| String::from_utf8_lossy(reply).into_owned());
        self.reply_tokens = Some(tokens);
        self.tokens_saved = Some(self.size.tokens.saturating_sub(tokens));
    }

    /// Removes the paths of files that no longer exist.
    pub(crate) fn remove_paths(&mut self) {
        self.directory = None;
        self.files.iter_mut().for_each(|file| file.path = None);
    }

    /// Formats the report as a table.
    pub(crate) fn to_table(&self) -> String {
        let mut rows = vec![("verdict", self.verdict.to_owned())];
        let Size { bytes, characters, tokens } = self.size;
        rows.push(("input", format!("{bytes} bytes, {characters} characters, about {tokens} tokens")));
        if let (Some(after), Some(saved)) = (self.reply_tokens, self.tokens_saved) {
            let percent = saved as f64 * 100.0 / tokens.max(1) as f64;
            rows.push(("reply", format!("about {after} tokens, {percent:.1} % saved")));
        }
        if let Some(id) = &self.id {
            rows.push(("handle", id.clone()));
        }
        for file in &self.files {
            let File { records, bytes, .. } = file;
            let name = file.path.as_ref().unwrap_or(&file.name);
            let records = if *records > 0 { format!("{records} records, ") } else { String::new() };
            rows.push(("file", format!("{name}: {records}{bytes} bytes")));
        }
        if let Some(cost) = &self.inspect {
            rows.push(("inspect", format!("{}, memory {} bytes", milliseconds(cost.micros), cost.memory_bytes)));
        }
        if let Some(WriteCost { micros, memory_bytes, written_bytes }) = &self.write {
            let time = milliseconds(*micros);
            rows.push(("write", format!("{time}, memory {memory_bytes} bytes, written {written_bytes} bytes")));
        }
        if let Some(policy) = &self.policy {
            rows.push(("policy", format!("lro:filter@{}, SHA-256 {}", policy.version, policy.sha256)));
        }
        columns(&rows)
    }
}

impl File {
    fn new(record: &FileRecord, directory: &std::path::Path) -> Self {
        Self {
            name: record.name.clone(),
            path: Some(directory.join(&record.name).display().to_string()),
            section: record.section.clone(),
            kind: record.kind,
            parts: record.parts.clone(),
            pointer: record.pointer.clone(),
            media_type: record.media_type.clone(),
            records: record.records,
            bytes: record.bytes,
            sha256: record.sha256,
            digest_from: record.digest_from,
        }
    }
}

fn milliseconds(micros: u128) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}
