//! One result through the policy.

use lro_contract::settings::{AfterFailure, LOG_BYTES_DEFAULT, PolicySettings};
use lro_contract::text::one_line;
use lro_contract::ulid::{Ulid, rfc3339};

use crate::bindings::exports::lro::adapter::filter::{
    Abilities, Error, File, Limit, Outcome, Reply, Request, SizeUnit,
};
use crate::bindings::lro::adapter::held::{self, Bounds, CloseError, Found};
use crate::bindings::lro::filter0_2_0::lro_filter::{inspect_result, write_sections};
use crate::bindings::lro::filter0_2_0::types::{self, Plan, PlannedPart, PolicyError, Verdict};
use crate::convert::check_plan;
use crate::record;
use crate::record::Recorded;
use crate::settings::Settings;

/// Why a policy's decision was not carried out.
struct Failure {
    /// The error as a sentence.
    error: String,
    /// Whether the policy had already decided to write the result.
    wrote: bool,
}

pub(crate) fn filter(request: &Request, tool_result: u32) -> Result<Reply, Error> {
    let settings = Settings::parse(&request.settings)?;
    let id: Ulid = request.id.parse().map_err(|error| Error::Id(format!("`{}`: {error}", request.id)))?;
    let found = begin(tool_result, &settings)?;
    if found.not_for_policy {
        return Ok(reply(Outcome::Pass));
    }
    decide(request, &settings, id, found.is_error).or_else(|failure| Ok(after(&settings, &failure)))
}

pub(crate) fn failed(request: &Request, tool_result: u32, reason: &str, wrote: bool) -> Result<Reply, Error> {
    let settings = Settings::parse(&request.settings)?;
    begin(tool_result, &settings)?;
    let error = one_line(reason, LOG_BYTES_DEFAULT);
    Ok(after(&settings, &Failure { error, wrote }))
}

pub(crate) fn truncate(settings: &str, tool_result: u32, warning: &str) -> Result<String, Error> {
    let settings = Settings::parse(settings)?;
    begin(tool_result, &settings)?;
    Ok(truncated(&settings.policy, warning))
}

/// Begins a call with a message.
fn begin(tool_result: u32, settings: &Settings) -> Result<Found, Error> {
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

fn decide(request: &Request, settings: &Settings, id: Ulid, is_error: bool) -> Result<Reply, Failure> {
    let before = |error: String| Failure { error, wrote: false };
    let (call, handle) = (call(request, &settings.policy, id, is_error), held::handle());
    let mut verdict = inspect_result(&call, &handle).map_err(|error| before(refused(error)))?;
    crate::sanitize::truncate_advice(&mut verdict, settings.policy.descriptor_limit);
    match verdict {
        Verdict::Pass => Ok(reply(Outcome::Pass)),
        Verdict::Reject(advice) => Ok(Reply { tool_result: Some(held::rejected(&advice)), ..reply(Outcome::Reject) }),
        Verdict::Truncate(truncation) => {
            let cut = held::truncated(truncation.limit, &truncation.suffix, "");
            Ok(Reply { tool_result: Some(cut), ..reply(Outcome::Truncate) })
        }
        Verdict::Offload(plan) => offload(request, settings, id, &call, &handle, &plan).map_err(|error| {
            held::discard();
            Failure { error, wrote: true }
        }),
    }
}

fn offload(
    request: &Request,
    settings: &Settings,
    id: Ulid,
    call: &types::Call,
    handle: &types::ToolResult,
    plan: &Plan,
) -> Result<Reply, String> {
    check_plan(plan).map_err(answered)?;
    held::open()?;
    let written = write_sections(call, handle, plan);
    let closed = held::close();
    if let Err(CloseError::Bound(bound)) = closed {
        return Err(format!("the policy {bound}"));
    }
    let mut written = written.map_err(refused)?;
    crate::sanitize::sanitize_descriptor(&mut written, LOG_BYTES_DEFAULT);
    let files = closed.map_err(|error| match error {
        CloseError::Bound(text) | CloseError::Unreadable(text) => format!("the policy {text}"),
    })?;
    if written.content.chars().count() > settings.policy.descriptor_limit as usize {
        return Err(answered("a descriptor over its limit".to_owned()));
    }
    let notes = std::mem::take(&mut written.notes);
    let Recorded { descriptor, files } = record::record(request, id, &call.time, written, files)?;
    let kept: Vec<bool> = plan.parts.iter().map(|part| matches!(part, PlannedPart::Keep)).collect();
    let descriptor = match call.settings.level {
        types::DescriptorLevel::Full => descriptor.with_integrity,
        _ => descriptor.as_written,
    };
    let tool_result = Some(held::offloaded(&descriptor, &kept));
    let files = files.into_iter().map(|(name, bytes)| File { name, bytes }).collect();
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

/// The error of a policy as a sentence.
fn refused(error: PolicyError) -> String {
    format!(
        "the policy refused: {}",
        crate::sanitize::describe(&crate::sanitize::sanitize_error(error, LOG_BYTES_DEFAULT))
    )
}

/// An invalid answer of a policy as a sentence.
pub(crate) fn answered(wrong: String) -> String {
    format!("the policy answered with {wrong}")
}

/// The reply of the setting `failure`.
fn after(settings: &Settings, failure: &Failure) -> Reply {
    let of_mode = match settings.failure.after(&failure.error, failure.wrote, false) {
        AfterFailure::Pass => reply(Outcome::Pass),
        AfterFailure::Fail(error) => Reply { tool_result: Some(held::rejected(&error)), ..reply(Outcome::Fail) },
        AfterFailure::Truncate(warning) => {
            let cut = truncated(&settings.policy, &warning);
            Reply { tool_result: Some(cut), ..reply(Outcome::Truncate) }
        }
    };
    Reply { failure: Some(failure.error.clone()), ..of_mode }
}
