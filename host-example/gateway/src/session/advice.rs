//! Advice on how to ask a tool for less, in what the client gets in place of a result.

use lro_host::filter::{Offloaded, Outcome};
use lro_host::mcp::{self, Message, ResultSize, ToolPage, largest_field};
use lro_host::store::{FileKind, FileRecord, Offload, Section};

use super::filtering::Answer;
use super::pending::{Call, ToolCall};
use crate::metrics::tokens;
use crate::session::Session;
use crate::settings::{DescriptorLevel, PolicySettings, SizeUnit, bytes_of};

/// Characters, or bytes, that are taken for a token, and bytes of a reply that says everything twice, with escapes.
const CHARACTERS_A_TOKEN: u64 = 4;
const REPLY_BYTES_A_TOKEN: u64 = 10;

/// What a truncated result says before the advice.
const CUT: &str = "larger than the limit: only a part is here.";

/// Largest result that is read once more for advice, in bytes.
const RESULT_BYTES_MAX: usize = 4 << 20;

/// How many records show which field is the largest, and how many bytes of them: more if the first record has more.
const SAMPLE_RECORDS: usize = 100;
const SAMPLE_BYTES: [usize; 2] = [32 << 10, 256 << 10];

impl Session {
    /// Adds advice to the outcome for a result that is cut or refused.
    pub(super) fn advise(&self, outcome: &mut Outcome, answer: Answer<'_>, settings: &PolicySettings) {
        let is_cut = matches!(outcome, Outcome::Truncate { warning: None, .. }) && !answer.result.is_error();
        if !is_cut && !matches!(outcome, Outcome::Reject(_)) {
            return;
        }
        let Some(advice) = self.advice(answer.tool, || self.size_of_result(answer, settings)) else { return };
        match outcome {
            Outcome::Truncate { warning, .. } => *warning = Some(format!("{CUT} {advice}")),
            Outcome::Reject(text) => *text = format!("{text} {advice}"),
            _ => {}
        }
    }

    /// The descriptor with advice. The level `pointer` says only where the result is.
    pub(super) fn advised(&self, offloaded: &Offloaded, answer: Answer<'_>, settings: &PolicySettings) -> String {
        let descriptor = &offloaded.descriptor;
        let is_pointer = settings.level == DescriptorLevel::Pointer || descriptor.contains("\"advice\":");
        let size = || {
            let records = main_file(&offloaded.offload);
            ResultSize {
                tokens: offloaded.offloaded_tokens,
                fitting: self.fitting(answer.call, settings),
                records: records.map(|file| file.records),
                largest_field: records.and_then(|file| sampled(&offloaded.offload, file)),
            }
        };
        let advice = if is_pointer { None } else { self.advice(answer.tool, size) };
        match (advice, descriptor.strip_suffix('}')) {
            (Some(advice), Some(open)) if descriptor.len() > 2 => {
                format!("{open},\"advice\":{}}}", serde_json::Value::from(advice))
            }
            _ => descriptor.clone(),
        }
    }

    /// Advice for a call, if its tool was listed with arguments. `size` may read files.
    fn advice(&self, tool: &ToolCall, size: impl FnOnce() -> ResultSize) -> Option<String> {
        let schema = self.input_schema(&tool.name)?;
        mcp::advice(&schema, tool.query.as_deref(), &size())
    }

    /// The size of a result that is not in files. What is in it is for the built-in policy alone to show: any other may have
    /// reasons to withhold it.
    fn size_of_result(&self, Answer { result, call, .. }: Answer<'_>, settings: &PolicySettings) -> ResultSize {
        let bytes = result.pass();
        let is_default = self.rules.filter.slot.current().is_some_and(|serving| serving.policy.is_default());
        let page = (is_default && bytes.len() <= RESULT_BYTES_MAX)
            .then(|| ToolPage::of(&Message::read(bytes.clone()), None))
            .flatten();
        let all = || result.structured().map_or_else(|| tokens(&bytes), |structured| tokens(&structured));
        let items = page.as_ref().map(ToolPage::items).unwrap_or_default();
        let list = format!("[{items}]");
        let records = lro_json::elements(&list).unwrap_or_default();
        ResultSize {
            tokens: if page.is_some() { tokens(items.as_bytes()) } else { all() },
            fitting: self.fitting(call, settings),
            records: page.as_ref().map(|page| page.count as u64),
            largest_field: largest_field(records.into_iter().take(SAMPLE_RECORDS)),
        }
    }

    /// How many estimated tokens of a result would have passed.
    fn fitting(&self, call: &Call, settings: &PolicySettings) -> u64 {
        let threshold = match settings.threshold.unit {
            SizeUnit::Tokens => settings.threshold.amount,
            SizeUnit::Bytes | SizeUnit::Characters => settings.threshold.amount / CHARACTERS_A_TOKEN,
        };
        let limit = self.reply_limit(&self.reader(call)).map(bytes_of);
        let room = call.client.reply_bytes().into_iter().chain(limit).min();
        room.map_or(threshold, |room| threshold.min(room / REPLY_BYTES_A_TOKEN))
    }
}

/// The file with the records that the result is about, if most of it is records.
fn main_file(offload: &Offload) -> Option<&FileRecord> {
    let files = &offload.record().files;
    let largest = files.iter().filter(|file| file.kind == FileKind::Records).max_by_key(|file| file.bytes)?;
    // The original of what was read from a text lies beside it.
    let all: u64 = files.iter().map(|file| file.bytes).sum();
    (largest.bytes.saturating_mul(3) >= all).then_some(largest)
}

/// The largest field of the first records.
fn sampled(offload: &Offload, file: &FileRecord) -> Option<(String, u64)> {
    let file = offload.open(&file.name).ok()?;
    let read = |bytes| file.lines(0, SAMPLE_RECORDS, bytes).ok().filter(|lines| !lines.is_empty());
    let lines = SAMPLE_BYTES.into_iter().find_map(read)?;
    largest_field(lines.iter().filter_map(|line| std::str::from_utf8(line).ok()))
}
