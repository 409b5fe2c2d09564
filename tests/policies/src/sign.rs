//! Signs all of its answers, so that a test sees which version of a component answered.
//!
//! A test makes another version by replacing the signature in the component's bytes.

use std::hint::black_box;

use crate::bindings::exports::lro::filter::lro_filter::{Descriptor, Plan, PolicyError, Verdict};
use crate::bindings::lro::filter::types::{PlannedPart, PlannedSection, SectionShape};
use crate::output;

static SIGNATURE: [u8; 18] = *b"SIGNATURE-AAAAAAAA";

fn signature() -> String {
    String::from_utf8_lossy(black_box(&SIGNATURE)).into_owned()
}

/// Plans a section with the signature.
pub(crate) fn inspect() -> Verdict {
    let section = PlannedSection { name: signature(), pointer: String::new(), shape: SectionShape::Elements };
    Verdict::Offload(Plan { parts: vec![PlannedPart::Sections(vec![section])] })
}

/// Signs a file and the descriptor, and repeats the signature of the plan.
pub(crate) fn write(plan: &Plan) -> Result<Descriptor, PolicyError> {
    let planned = match plan.parts.first() {
        Some(PlannedPart::Sections(sections)) => sections.first().map(|section| section.name.clone()),
        _ => None,
    };
    let signed = output::write("signed.txt", &signature())?;
    let content = format!("{{\"planned\":{:?},\"signed\":{:?}}}", planned.unwrap_or_default(), signature());
    Ok(crate::answer(content, vec![signed]))
}
