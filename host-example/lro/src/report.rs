//! What happened to a result, for scripts and for people.

use lro_host::filter::{Decision, Offloaded, Outcome};
use lro_host::policy::{Digest, Policy};
use lro_host::sandbox::Cost;
use lro_host::store::{FileKind, FileRecord};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::columns;
use crate::truncate::sizes;

/// What `--json` prints, on one line. What is not known or did not happen is null.
#[derive(Serialize)]
pub(crate) struct Report {
    /// `pass`, `offload`, `truncate`, `reject` or `fail`.
    verdict: &'static str,
    id: Option<String>,
    directory: Option<String>,
    descriptor: Option<Box<RawValue>>,
    /// What goes on in the place of the input; null when the input goes on unchanged, or nothing does.
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
    part: u32,
    pointer: Option<String>,
    media_type: String,
    records: u64,
    bytes: u64,
    sha256: Option<Digest>,
    digest_from: u64,
}

/// Size of the input. One that is not UTF-8 has the characters and tokens of the base64 it travels as.
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
    /// A report on an input about which only the verdict is known.
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

    /// Adds what the first call cost.
    pub(crate) fn inspected(&mut self, cost: Cost) {
        self.inspect = Some(InspectCost { micros: cost.time.as_micros(), memory_bytes: cost.memory_bytes });
    }

    /// Adds what became of the result. `failure` tells why the policy's decision was not carried out.
    pub(crate) fn decided(&mut self, decision: &Decision, failure: Option<String>) {
        if let Some(cost) = decision.inspect {
            self.inspected(cost);
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

    /// Adds what goes on: the input itself when there is no reply.
    pub(crate) fn replied(&mut self, reply: Option<&[u8]>) {
        let tokens = reply.map_or(self.size.tokens, |reply| sizes(reply)[2]);
        self.reply = reply.map(|reply| String::from_utf8_lossy(reply).into_owned());
        self.reply_tokens = Some(tokens);
        self.tokens_saved = Some(self.size.tokens.saturating_sub(tokens));
    }

    /// Takes the paths out of a report on files that are gone.
    pub(crate) fn forget_paths(&mut self) {
        self.directory = None;
        self.files.iter_mut().for_each(|file| file.path = None);
    }

    /// The report as a table for people.
    pub(crate) fn for_people(&self) -> String {
        let mut rows = vec![("verdict", self.verdict.to_owned())];
        let Size { bytes, characters, tokens } = self.size;
        rows.push(("input", format!("{bytes} bytes, {characters} characters, about {tokens} tokens")));
        if let (Some(after), Some(saved)) = (self.reply_tokens, self.tokens_saved) {
            let percent = saved as f64 * 100.0 / tokens.max(1) as f64;
            rows.push(("reply", format!("about {after} tokens, {percent:.1} % saved")));
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
            part: record.part,
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
