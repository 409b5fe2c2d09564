//! One result through the policy.

use lro_contract::settings::{AfterFailure, LOG_BYTES_DEFAULT, PolicySettings};
use lro_contract::text::one_line;
use lro_contract::ulid::{Ulid, rfc3339};
use lro_mcp::{Replacement, ToolResult, Truncation};
use lro_payload::{Part, PartKind, PayloadReader, ReadError, SLICE_BYTES_MAX};

use crate::bindings::exports::lro::adapter::filter::{Abilities, Error, File, Outcome, Reply, Request};
use crate::bindings::lro::adapter::held::{self, CloseError};
use crate::bindings::lro::filter0_2_0::lro_filter::{inspect_result, write_sections};
use crate::bindings::lro::filter0_2_0::types::{self, Plan, PlannedPart, PolicyError, Verdict};
use crate::convert::check_plan;
use crate::record::Recorded;
use crate::settings::Settings;
use crate::{parse, record, text};

/// Why a policy's decision was not carried out.
struct Failure {
    /// The error as a sentence.
    error: String,
    /// Whether the policy had already decided to write the result.
    wrote: bool,
}

pub(crate) fn filter(request: &Request, tool_result: String) -> Result<Reply, Error> {
    let settings = Settings::parse(&request.settings)?;
    let id: Ulid = request.id.parse().map_err(|error| Error::Id(format!("`{}`: {error}", request.id)))?;
    let result = parse(tool_result)?;
    if result.not_for_policy() {
        return Ok(reply(Outcome::Pass));
    }
    let decided = decide(request, &settings, id, &result);
    decided.or_else(|failure| Ok(after(&settings, &result, &failure)))
}

pub(crate) fn failed(request: &Request, tool_result: String, reason: &str, wrote: bool) -> Result<Reply, Error> {
    let settings = Settings::parse(&request.settings)?;
    let result = parse(tool_result)?;
    let error = one_line(reason, LOG_BYTES_DEFAULT);
    Ok(after(&settings, &result, &Failure { error, wrote }))
}

/// A reply without anything but its outcome.
fn reply(outcome: Outcome) -> Reply {
    Reply { outcome, tool_result: None, descriptor: None, files: Vec::new(), failure: None, notes: Vec::new() }
}

fn decide(request: &Request, settings: &Settings, id: Ulid, result: &ToolResult) -> Result<Reply, Failure> {
    let before = |error: String| Failure { error, wrote: false };
    held::begin(held::Bounds {
        written_bytes: settings.bounds.written_bytes,
        files: settings.bounds.files,
        open_files: settings.bounds.open_files,
        name_bytes: settings.bounds.name_bytes,
    });
    hand_over(result).map_err(|error| before(error.to_string()))?;
    let (call, handle) = (call(request, &settings.policy, id, result), held::handle());
    let mut verdict = inspect_result(&call, &handle).map_err(|error| before(refused(error)))?;
    crate::sanitize::truncate_advice(&mut verdict, settings.policy.descriptor_limit);
    match verdict {
        Verdict::Pass => Ok(reply(Outcome::Pass)),
        Verdict::Reject(advice) => {
            Ok(Reply { tool_result: Some(text(&result.rejected(&advice))), ..reply(Outcome::Reject) })
        }
        Verdict::Truncate(truncation) => {
            let (limit, suffix) = (truncation.limit.into(), truncation.suffix.as_str());
            let cut = result.truncated(&Truncation { limit, suffix, warning: "" });
            Ok(Reply { tool_result: Some(text(&cut)), ..reply(Outcome::Truncate) })
        }
        Verdict::Offload(plan) => offload(request, settings, id, result, &call, &handle, &plan).map_err(|error| {
            held::discard();
            Failure { error, wrote: true }
        }),
    }
}

fn offload(
    request: &Request,
    settings: &Settings,
    id: Ulid,
    result: &ToolResult,
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
    let replacement = Replacement { descriptor: &descriptor, kept: &kept, ..Replacement::default() };
    let tool_result = Some(text(&result.offloaded(&replacement)));
    let files = files.into_iter().map(|(name, bytes)| File { name, bytes }).collect();
    Ok(Reply { tool_result, descriptor: Some(descriptor), files, notes, ..reply(Outcome::Offload) })
}

/// Gives the parts of a result to the component that owns what the policy reads.
fn hand_over(result: &ToolResult) -> Result<(), ReadError> {
    let mut reader = PayloadReader::new(result.payload().clone());
    for (index, part) in (0..).zip(result.payload().parts()) {
        let Part { kind, media_type, name, .. } = part;
        held::add_part(of_contract(*kind), media_type.as_deref(), name.as_deref(), part.size());
        let mut offset = 0;
        while offset < part.size() {
            offset += match kind {
                PartKind::Binary => {
                    let slice = reader.read_bytes(index, offset, SLICE_BYTES_MAX)?;
                    held::append_bytes(&slice);
                    slice.len() as u64
                }
                _ => {
                    let slice = reader.read_text(index, offset, SLICE_BYTES_MAX)?;
                    held::append_text(&slice);
                    slice.len() as u64
                }
            };
        }
    }
    Ok(())
}

fn of_contract(kind: PartKind) -> types::PartKind {
    match kind {
        PartKind::Text => types::PartKind::Text,
        PartKind::Structured => types::PartKind::Structured,
        PartKind::Binary => types::PartKind::Binary,
        PartKind::Block => types::PartKind::Block,
        PartKind::Meta => types::PartKind::Meta,
    }
}

fn call(request: &Request, settings: &PolicySettings, id: Ulid, result: &ToolResult) -> types::Call {
    let pairs = [
        (Abilities::SHELL, types::Abilities::SHELL),
        (Abilities::EXTRACT_TOOL, types::Abilities::EXTRACT_TOOL),
        (Abilities::READ_TOOL, types::Abilities::READ_TOOL),
    ];
    let held = pairs.into_iter().filter(|(ability, _)| request.abilities.contains(*ability));
    let abilities = held.fold(types::Abilities::empty(), |all, (_, ability)| all | ability);
    types::Call {
        id: request.id.clone(),
        time: rfc3339(id.time()),
        tenant: request.tenant.clone(),
        session: request.session.clone(),
        tool: request.tool.clone(),
        query: request.query.clone(),
        input_schema: request.input_schema.clone(),
        is_error: result.is_error(),
        shown_path: request.shown_path.clone(),
        reader: types::Reader { abilities, limit: None },
        settings: settings.into(),
    }
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
fn after(settings: &Settings, result: &ToolResult, failure: &Failure) -> Reply {
    let of_mode = match settings.failure.after(&failure.error, failure.wrote, false) {
        AfterFailure::Pass => reply(Outcome::Pass),
        AfterFailure::Fail(error) => {
            Reply { tool_result: Some(text(&result.rejected(&error))), ..reply(Outcome::Fail) }
        }
        AfterFailure::Truncate(warning) => {
            let PolicySettings { truncate_limit, truncate_suffix, .. } = &settings.policy;
            let truncation = Truncation { limit: *truncate_limit, suffix: truncate_suffix, warning: &warning };
            Reply { tool_result: Some(text(&result.truncated(&truncation))), ..reply(Outcome::Truncate) }
        }
    };
    Reply { failure: Some(failure.error.clone()), ..of_mode }
}
