//! One result through the policy.

use std::cell::RefCell;

use lro_contract::settings::{AfterFailure, FilterSettings, LOG_BYTES_DEFAULT, PolicySettings};
use lro_contract::text::one_line;
use lro_contract::ulid::{Ulid, rfc3339};

use crate::bindings::exports::lro::adapter::filter::{
    self, Abilities, Error, File, Limit, Outcome, Reply, Request, SizeUnit,
};
use crate::bindings::lro::adapter::held::{self, Bounds, CloseError, Found, Written};
use crate::bindings::lro::filter0_2_0::lro_filter::{inspect_result, write_sections};
use crate::bindings::lro::filter0_2_0::types::{self, Plan, PlannedPart, PolicyError, Verdict};
use crate::convert::check_plan;
use crate::record::{self, Checked, Recorded};

/// Bytes of a SHA-256.
const DIGEST_BYTES: usize = 32;

/// Why a policy's decision was not carried out, as a sentence without its full stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Reason {
    /// What the policy answered does not fit the contract, or what it wrote.
    #[error("the policy answered with {0}")]
    Answer(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

struct Failure {
    reason: Reason,
    /// Whether the policy had already decided to write the result.
    wrote: bool,
}

/// An offload whose files are written, and whose digests the host computes.
struct Undigested {
    settings: FilterSettings,
    offload: Offload,
}

thread_local! {
    static UNDIGESTED: RefCell<Option<Undigested>> = const { RefCell::new(None) };
}

pub(crate) fn filter(request: Request, tool_result: u32, digests: bool) -> Result<Reply, Error> {
    let settings = crate::settings(&request.settings)?;
    let id: Ulid = request.id.parse().map_err(|error| Error::Id(format!("`{}`: {error}", request.id)))?;
    let found = begin(tool_result, &settings)?;
    if found.not_for_policy {
        return Ok(reply(Outcome::Pass));
    }
    let decided = match decide(request, &settings, id, found.is_error, digests) {
        Ok(Decided::Offload(offload)) if !digests => {
            let files = offload.checked.written.iter().map(written_file).collect();
            UNDIGESTED.set(Some(Undigested { settings, offload }));
            return Ok(Reply { files, ..reply(Outcome::Offload) });
        }
        Ok(Decided::Offload(offload)) => recorded(offload),
        Ok(Decided::Reply(reply)) => Ok(reply),
        Err(failure) => Err(failure),
    };
    Ok(decided.unwrap_or_else(|failure| after(&settings, &failure)))
}

pub(crate) fn digested(sha256: Vec<Vec<u8>>) -> Result<Reply, Error> {
    let none = || Error::Digests("no offload waits for digests".to_owned());
    let Undigested { settings, mut offload } = UNDIGESTED.take().ok_or_else(none)?;
    let count = offload.checked.written.len();
    if sha256.len() != count || sha256.iter().any(|digest| digest.len() != DIGEST_BYTES) {
        return Err(Error::Digests(format!("expected {count} digests of {DIGEST_BYTES} bytes, one for each file")));
    }
    offload.checked.written.iter_mut().zip(sha256).for_each(|(file, digest)| file.sha256 = Some(digest));
    Ok(recorded(offload).unwrap_or_else(|failure| after(&settings, &failure)))
}

fn written_file(written: &Written) -> File {
    File { name: written.name.clone(), bytes: written.bytes, digest_from: written.digest_from }
}

pub(crate) fn failed(request: &Request, tool_result: u32, reason: &str, wrote: bool) -> Result<Reply, Error> {
    let settings = crate::settings(&request.settings)?;
    begin(tool_result, &settings)?;
    let reason = Reason::Other(one_line(reason, LOG_BYTES_DEFAULT));
    Ok(after(&settings, &Failure { reason, wrote }))
}

pub(crate) fn truncate(settings: &str, tool_result: u32, warning: &str) -> Result<String, Error> {
    let settings = crate::settings(settings)?;
    begin(tool_result, &settings)?;
    Ok(truncated(&settings.policy, warning))
}

/// Begins a call with a message. What was not completed never will be.
fn begin(tool_result: u32, settings: &FilterSettings) -> Result<Found, Error> {
    UNDIGESTED.take();
    let bounds = Bounds {
        written_bytes: settings.bounds.written_bytes,
        files: settings.bounds.files,
        open_files: settings.bounds.open_files,
        name_bytes: settings.bounds.name_bytes,
    };
    held::begin(tool_result, bounds).map_err(Error::ToolResult)
}

/// The message cut to the limit of the settings.
fn truncated(settings: &PolicySettings, warning: &str) -> String {
    held::truncated(settings.truncate_limit.into(), &settings.truncate_suffix, warning)
}

/// A reply without anything but its outcome.
fn reply(outcome: Outcome) -> Reply {
    Reply { outcome, tool_result: None, descriptor: None, files: Vec::new(), failure: None, notes: Vec::new() }
}

/// What the policy decided.
enum Decided {
    Reply(Reply),
    /// It has written files.
    Offload(Offload),
}

/// What the policy has written.
struct Offload {
    request: Request,
    id: Ulid,
    time: String,
    level: types::DescriptorLevel,
    /// Of each part, whether it stays in the reply.
    kept: Vec<bool>,
    notes: Vec<String>,
    checked: Checked,
}

fn decide(
    request: Request,
    settings: &FilterSettings,
    id: Ulid,
    is_error: bool,
    digests: bool,
) -> Result<Decided, Failure> {
    let (call, handle) = (call(&request, &settings.policy, id, is_error), held::handle());
    let mut verdict =
        inspect_result(&call, &handle).map_err(|error| Failure { reason: refused(error), wrote: false })?;
    crate::sanitize::truncate_advice(&mut verdict, settings.policy.descriptor_limit);
    Ok(Decided::Reply(match verdict {
        Verdict::Pass => reply(Outcome::Pass),
        Verdict::Reject(advice) => Reply { tool_result: Some(held::rejected(&advice)), ..reply(Outcome::Reject) },
        Verdict::Truncate(truncation) => {
            let cut = held::truncated(truncation.limit, &truncation.suffix, "");
            Reply { tool_result: Some(cut), ..reply(Outcome::Truncate) }
        }
        Verdict::Offload(plan) => {
            let limit = settings.policy.descriptor_limit;
            let (checked, notes) = write(&call, &handle, &plan, limit, digests).map_err(discarded)?;
            let kept = plan.parts.iter().map(|part| matches!(part, PlannedPart::Keep)).collect();
            let (time, level) = (call.time, call.settings.level);
            return Ok(Decided::Offload(Offload { request, id, time, level, kept, notes, checked }));
        }
    }))
}

/// The failure of a policy whose files are removed.
fn discarded(reason: Reason) -> Failure {
    held::discard();
    Failure { reason, wrote: true }
}

/// Lets the policy write. The descriptor has at most `limit` characters. Returns the notes of the policy too.
fn write(
    call: &types::Call,
    handle: &types::ToolResult,
    plan: &Plan,
    limit: u32,
    digests: bool,
) -> Result<(Checked, Vec<String>), Reason> {
    check_plan(plan).map_err(Reason::Answer)?;
    held::open(digests).map_err(Reason::Other)?;
    let written = write_sections(call, handle, plan);
    let closed = held::close();
    if let Err(CloseError::Bound(bound)) = closed {
        return Err(Reason::Other(format!("the policy {bound}")));
    }
    let mut descriptor = written.map_err(refused)?;
    crate::sanitize::sanitize_descriptor(&mut descriptor, LOG_BYTES_DEFAULT);
    let files = closed.map_err(|error| match error {
        CloseError::Bound(text) | CloseError::Unreadable(text) => Reason::Other(format!("the policy {text}")),
    })?;
    if descriptor.content.chars().count() > limit as usize {
        return Err(Reason::Answer("a descriptor over its limit".to_owned()));
    }
    let notes = std::mem::take(&mut descriptor.notes);
    Ok((record::check(descriptor, files)?, notes))
}

/// The reply to an offload, whose manifest is written.
fn recorded(offload: Offload) -> Result<Reply, Failure> {
    let Offload { request, id, time, level, kept, notes, checked } = offload;
    let Recorded { descriptor, files } = record::record(request, id, time, checked).map_err(discarded)?;
    let descriptor = match level {
        types::DescriptorLevel::Full => descriptor.with_integrity,
        _ => descriptor.as_written,
    };
    let tool_result = Some(held::offloaded(&descriptor, &kept));
    Ok(Reply { tool_result, descriptor: Some(descriptor), files, notes, ..reply(Outcome::Offload) })
}

fn call(request: &Request, settings: &PolicySettings, id: Ulid, is_error: bool) -> types::Call {
    let pairs = [
        (Abilities::SHELL, types::Abilities::SHELL),
        (Abilities::EXTRACT_TOOL, types::Abilities::EXTRACT_TOOL),
        (Abilities::READ_TOOL, types::Abilities::READ_TOOL),
    ];
    let held = pairs.into_iter().filter(|(ability, _)| request.abilities.contains(*ability));
    let mut settings: types::Settings = settings.into();
    settings.descriptor_limit = settings.descriptor_limit.min(request.descriptor_room.unwrap_or(u32::MAX));
    let abilities = held.fold(types::Abilities::empty(), |all, (_, ability)| all | ability);
    types::Call {
        id: request.id.clone(),
        time: rfc3339(id.time()),
        tenant: request.tenant.clone(),
        session: request.session.clone(),
        tool: request.tool.clone(),
        query: request.query.clone(),
        input_schema: request.input_schema.clone(),
        is_error,
        shown_path: request.shown_path.clone(),
        reader: types::Reader { abilities, limit: request.reader_limit.map(size) },
        settings,
    }
}

fn size(limit: Limit) -> types::Size {
    let unit = match limit.unit {
        SizeUnit::Bytes => types::SizeUnit::Bytes,
        SizeUnit::Characters => types::SizeUnit::Characters,
        SizeUnit::Tokens => types::SizeUnit::Tokens,
    };
    types::Size { amount: limit.amount, unit }
}

fn refused(error: PolicyError) -> Reason {
    let error = crate::sanitize::sanitize_error(error, LOG_BYTES_DEFAULT);
    Reason::Other(format!("the policy refused: {}", crate::sanitize::describe(&error)))
}

/// The reply of the setting `failure`.
fn after(settings: &FilterSettings, failure: &Failure) -> Reply {
    let reason = failure.reason.to_string();
    let of_mode = match settings.failure.after(&reason, failure.wrote, false) {
        AfterFailure::Pass => reply(Outcome::Pass),
        AfterFailure::Fail(error) => Reply { tool_result: Some(held::rejected(&error)), ..reply(Outcome::Fail) },
        AfterFailure::Truncate(warning) => {
            let cut = truncated(&settings.policy, &warning);
            Reply { tool_result: Some(cut), ..reply(Outcome::Truncate) }
        }
    };
    let false_answer = matches!(failure.reason, Reason::Answer(_));
    Reply { failure: Some(filter::Failure { reason, false_answer }), ..of_mode }
}
