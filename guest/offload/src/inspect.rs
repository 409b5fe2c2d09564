//! The verdict: whether a result is too large, and the plan for its files.

use crate::bindings::lro::filter::types::{
    Action, DecisionMode, PlannedSection, SectionShape, Size, SizeUnit, Truncation,
};
use crate::names::Names;
use crate::{CURSORS, Call, Part, PartKind, Plan, PlannedPart, PolicyError, Source, Verdict};
use lro_json::pointer::{last_key, push_step};
use lro_jsonl::{Measure, SECTIONS_MAX, SURVEY_BYTES_MAX, Section, Survey, survey};

/// Bytes at the beginning of a text that decide whether it is measured as JSON.
const LOOKS_LIKE_JSON_BYTES: usize = 4096;

/// The verdict on a result, by the settings of the call.
///
/// # Errors
/// [`PolicyError::Invalid`] for invalid settings, and the errors of the source.
pub fn inspect(call: &Call, source: &impl Source) -> Result<Verdict, PolicyError> {
    let settings = &call.settings;
    check(call)?;
    if settings.mode == DecisionMode::Never {
        return Ok(Verdict::Pass);
    }
    let parts = source.parts();
    if settings.mode == DecisionMode::BySize && !exceeds(source, &parts, settings.threshold)? {
        return Ok(Verdict::Pass);
    }
    if call.is_error {
        return Ok(if exceeds(source, &parts, settings.truncate_limit)? { truncate(call) } else { Verdict::Pass });
    }
    match settings.action {
        Action::Truncate => Ok(truncate(call)),
        Action::Reject => Ok(Verdict::Reject(advice(call))),
        Action::Offload => {
            let plan = plan(call, source, &[])?;
            let writes = plan.parts.iter().any(|part| !matches!(part, PlannedPart::Keep));
            Ok(if writes { Verdict::Offload(plan) } else { Verdict::Pass })
        }
    }
}

fn check(call: &Call) -> Result<(), PolicyError> {
    let settings = &call.settings;
    if settings.threshold.amount == 0 {
        return Err(PolicyError::Invalid("threshold: must be at least 1".to_owned()));
    }
    if settings.truncate_limit.amount == 0 {
        return Err(PolicyError::Invalid("truncate-limit: must be at least 1".to_owned()));
    }
    Ok(())
}

fn truncate(call: &Call) -> Verdict {
    Verdict::Truncate(Truncation { limit: call.settings.truncate_limit, suffix: call.settings.truncate_suffix.clone() })
}

fn advice(call: &Call) -> String {
    if !call.settings.advice.is_empty() {
        return call.settings.advice.clone();
    }
    let Size { amount, unit } = call.settings.threshold;
    format!(
        "The result of `{}` is larger than {amount} {}. Ask for less: a smaller limit or page, fewer fields, or a filter.",
        call.tool,
        unit_name(unit),
    )
}

fn unit_name(unit: SizeUnit) -> &'static str {
    match unit {
        SizeUnit::Bytes => "bytes",
        SizeUnit::Characters => "characters",
        SizeUnit::Tokens => "estimated tokens",
    }
}

/// Bytes of a part in a reply: a binary part is sent as base64.
fn wire_bytes(part: &Part) -> u64 {
    match part.kind {
        PartKind::Binary => part.size.div_ceil(3) * 4,
        _ => part.size,
    }
}

/// Whether the whole result is larger than a size. Bytes bound the other units from above, so a result with few bytes
/// is not read at all; a larger one is read only until it exceeds the limit.
fn exceeds(source: &impl Source, parts: &[Part], limit: Size) -> Result<bool, PolicyError> {
    if parts.iter().map(wire_bytes).sum::<u64>() <= limit.amount {
        return Ok(false);
    }
    let mut total = 0;
    for (index, part) in (0..).zip(parts) {
        total += match part.kind {
            PartKind::Binary => amount_of_ascii(wire_bytes(part), limit.unit),
            _ => measure(source, index, part.kind, limit.unit, limit.amount.saturating_sub(total))?,
        };
        if total > limit.amount {
            return Ok(true);
        }
    }
    Ok(false)
}

fn amount_of_ascii(bytes: u64, unit: SizeUnit) -> u64 {
    match unit {
        SizeUnit::Bytes | SizeUnit::Characters => bytes,
        SizeUnit::Tokens => bytes.div_ceil(4),
    }
}

/// The size of a text part, or any size above `enough`.
fn measure(source: &impl Source, part: u32, kind: PartKind, unit: SizeUnit, enough: u64) -> Result<u64, PolicyError> {
    let mut size: Option<Measure> = None;
    let mut amount = 0;
    source.read_text(part, &mut |slice| {
        let size = size.get_or_insert_with(|| {
            if kind != PartKind::Text || looks_like_json(slice) { Measure::json() } else { Measure::text() }
        });
        size.push(slice);
        amount = match unit {
            SizeUnit::Bytes => size.bytes(),
            SizeUnit::Characters => size.characters(),
            SizeUnit::Tokens => size.tokens(),
        };
        Ok(amount <= enough)
    })?;
    Ok(amount)
}

/// Whether a text begins like a JSON container.
fn looks_like_json(text: &str) -> bool {
    let end = text.floor_char_boundary(LOOKS_LIKE_JSON_BYTES);
    let beginning = &text[..end];
    beginning.trim_start().starts_with(['{', '[']) && survey(beginning, end == text.len()).is_ok()
}

/// The plan for a result: the parts to write by the settings of the call, and the parts for which `wanted`, in the
/// order of the parts, is true. Missing entries are false.
///
/// # Errors
/// The errors of the source.
pub fn plan(call: &Call, source: &impl Source, wanted: &[bool]) -> Result<Plan, PolicyError> {
    let parts = source.parts();
    let mut names = Names::default();
    let mut room = call.settings.threshold.amount;
    let mut planned = Vec::with_capacity(parts.len());
    let wanted = wanted.iter().copied().chain(std::iter::repeat(false));
    for ((index, part), wanted) in (0..).zip(&parts).zip(wanted) {
        let may_stay = !wanted && call.settings.mode == DecisionMode::BySize;
        planned.push(match part.kind {
            PartKind::Binary => {
                let amount = amount_of_ascii(wire_bytes(part), call.settings.threshold.unit);
                match room.checked_sub(amount) {
                    Some(left) if may_stay => {
                        room = left;
                        PlannedPart::Keep
                    }
                    _ => PlannedPart::Bytes,
                }
            }
            PartKind::Text | PartKind::Structured => {
                let small = part.size <= u64::from(call.settings.inline_limit);
                if small && may_stay {
                    PlannedPart::Keep
                } else {
                    text_or_sections(call, source, index, part.kind, &mut names)?
                }
            }
            PartKind::Block | PartKind::Meta if !wanted && part.size <= u64::from(call.settings.inline_limit) => {
                PlannedPart::Keep
            }
            PartKind::Block | PartKind::Meta => PlannedPart::Sections(Vec::new()),
        });
    }
    if planned.iter().any(|part| !matches!(part, PlannedPart::Keep)) {
        for (planned, _) in planned.iter_mut().zip(&parts).filter(|(_, part)| is_cursor(part)) {
            *planned = PlannedPart::Sections(Vec::new());
        }
    }
    Ok(Plan { parts: planned })
}

/// Whether a part is the cursor of the tool's next page.
fn is_cursor(part: &Part) -> bool {
    part.kind == PartKind::Meta && part.name.as_deref().is_some_and(|name| CURSORS.contains(&name))
}

fn text_or_sections(
    call: &Call,
    source: &impl Source,
    part: u32,
    kind: PartKind,
    names: &mut Names,
) -> Result<PlannedPart, PolicyError> {
    let search = call.settings.sections.is_empty();
    let (mut survey, mut seen, mut is_json, mut whole) = (Survey::new(), 0, kind != PartKind::Text, true);
    source.read_text(part, &mut |slice| {
        is_json |= seen == 0 && slice.trim_start().starts_with(['{', '[']);
        if is_json {
            // Not JSON, or nested deeper than the splitter allows.
            is_json = survey.push(slice).is_ok();
        }
        seen += slice.len();
        // Configured sections need no search; the first slice shows whether this is JSON.
        whole = search && seen < SURVEY_BYTES_MAX;
        Ok(is_json && whole)
    })?;
    if !is_json {
        return Ok(PlannedPart::Text);
    }
    match survey.finish(whole) {
        Ok(found) if search => Ok(PlannedPart::Sections(named(found, names))),
        Ok(_) => Ok(PlannedPart::Sections(configured(call, names))),
        Err(_) => Ok(PlannedPart::Text),
    }
}

fn named(found: Vec<Section>, names: &mut Names) -> Vec<PlannedSection> {
    let planned = found.into_iter().map(|Section { pointer, shape }| PlannedSection {
        name: names.section(&last_key(&pointer).unwrap_or_else(|| "records".to_owned())),
        shape: shape.into(),
        pointer,
    });
    planned.collect()
}

fn configured(call: &Call, names: &mut Names) -> Vec<PlannedSection> {
    let planned = call.settings.sections.iter().take(SECTIONS_MAX).map(|rule| {
        let pointer = pointer_of_key(&rule.key);
        PlannedSection {
            name: names.section(&last_key(&pointer).unwrap_or_else(|| "records".to_owned())),
            pointer,
            shape: SectionShape::Elements,
        }
    });
    planned.collect()
}

/// The JSON Pointer of a configured key: a pointer stays unchanged, a plain key becomes one.
pub(crate) fn pointer_of_key(key: &str) -> String {
    let mut pointer = String::new();
    if key.is_empty() || key.starts_with('/') {
        pointer.push_str(key);
    } else {
        push_step(&mut pointer, key);
    }
    pointer
}
