//! The verdict: whether a result is too large.

use lro_jsonl::{Measure, survey};
use lro_text::without_mark;

use crate::bindings::lro::filter::types::{Action, DecisionMode, Size, SizeUnit, Truncation};
use crate::plan::plan;
use crate::{Call, Part, PartKind, PlannedPart, PolicyError, Source, Verdict, images};

/// Characters of English that a token has.
const CHARACTERS_A_TOKEN: u64 = 4;

/// Tokens, and the characters of base64 that they are: measured with `o200k_base`, 0.68 a character.
pub(crate) const BASE64_TOKENS: u64 = 7;
pub(crate) const BASE64_CHARACTERS: u64 = 10;

/// Bytes at the beginning of a text that decide whether it is measured as JSON. A first slice has as many, unless it is the whole text.
const LOOKS_LIKE_JSON_BYTES: usize = 4096;

/// Bytes of a text that are measured at once: few, as the measure ends as soon as it is enough.
const STEP_BYTES: usize = 8 * 1024;

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
    let is_small = || Ok(!images::exceed(call, &parts) && !exceeds(call, source, &parts, settings.threshold)?);
    if settings.mode == DecisionMode::BySize && is_small()? {
        return Ok(Verdict::Pass);
    }
    if call.is_error {
        return Ok(if exceeds(call, source, &parts, settings.truncate_limit)? {
            truncate(call)
        } else {
            Verdict::Pass
        });
    }
    match settings.action {
        Action::Truncate => Ok(truncate(call)),
        Action::Reject => Ok(Verdict::Reject(advice(call))),
        Action::Offload => {
            let plan = plan(call, source, &parts, &[])?;
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
pub(crate) fn wire_bytes(part: &Part) -> u64 {
    match part.kind {
        PartKind::Binary => part.size.div_ceil(3) * 4,
        _ => part.size,
    }
}

/// Whether the whole result is larger than a size. Bytes bound the other units from above, and an image costs a bounded
/// number of tokens, so a small result is not read at all; a larger one is read only until it exceeds the limit.
fn exceeds(call: &Call, source: &impl Source, parts: &[Part], limit: Size) -> Result<bool, PolicyError> {
    let is_image = |part: &Part| images::stay(call) && images::is_image(part);
    let most = |part: &Part| match part.kind {
        PartKind::Binary if is_image(part) => of_tokens(images::TOKENS_MAX, limit.unit),
        _ => wire_bytes(part),
    };
    if parts.iter().all(|part| part.complete) && parts.iter().map(most).sum::<u64>() <= limit.amount {
        return Ok(false);
    }
    let mut total = 0;
    for (index, part) in (0..).zip(parts) {
        total += match part.kind {
            PartKind::Binary if is_image(part) => of_tokens(images::tokens(source, index, part)?, limit.unit),
            PartKind::Binary => of_ascii(wire_bytes(part), limit.unit),
            _ => measure(source, index, part.kind, limit.unit, limit.amount.saturating_sub(total))?,
        };
        if total > limit.amount {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The size of so many characters of base64, which are the most tokens of what a reply has without being read.
pub(crate) fn of_ascii(bytes: u64, unit: SizeUnit) -> u64 {
    match unit {
        SizeUnit::Bytes | SizeUnit::Characters => bytes,
        SizeUnit::Tokens => bytes.saturating_mul(BASE64_TOKENS).div_ceil(BASE64_CHARACTERS),
    }
}

/// The size of an English text of so many tokens.
fn of_tokens(tokens: u64, unit: SizeUnit) -> u64 {
    match unit {
        SizeUnit::Bytes | SizeUnit::Characters => tokens * CHARACTERS_A_TOKEN,
        SizeUnit::Tokens => tokens,
    }
}

/// The size of a text part, or any size above `enough`.
fn measure(source: &impl Source, part: u32, kind: PartKind, unit: SizeUnit, enough: u64) -> Result<u64, PolicyError> {
    let mut size: Option<Measure> = None;
    let mut amount = 0;
    source.read_text(part, &mut |slice| {
        let size = size.get_or_insert_with(|| {
            let is_json = kind != PartKind::Text || looks_like_json(slice);
            let size = if is_json { Measure::json() } else { Measure::text() };
            if unit == SizeUnit::Tokens { size } else { size.without_tokens() }
        });
        let mut rest = slice;
        while !rest.is_empty() && amount <= enough {
            let step;
            (step, rest) = rest.split_at(rest.floor_char_boundary(STEP_BYTES));
            size.push(step);
            amount = match unit {
                SizeUnit::Bytes => size.bytes(),
                SizeUnit::Characters => size.characters(),
                SizeUnit::Tokens => size.tokens(),
            };
        }
        Ok(amount <= enough)
    })?;
    Ok(amount)
}

/// Whether a text begins like a JSON container.
fn looks_like_json(text: &str) -> bool {
    let beginning = without_mark(&text[..text.floor_char_boundary(LOOKS_LIKE_JSON_BYTES)]);
    // A slice as long as that may go on in the next one.
    let is_whole = text.len() < LOOKS_LIKE_JSON_BYTES;
    beginning.trim_start().starts_with(['{', '[']) && survey(beginning, is_whole).is_ok()
}
