//! Redaction does not depend on the boundaries of slices, finds the same in a text and in a string of JSON, and JSON stays
//! JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lro_redact::{Redactor, Rules};
use serde::de::IgnoredAny;

/// The text without its secrets, read in slices of a number of bytes.
fn redacted(rules: &Rules, text: &str, is_json: bool, bytes: usize) -> (String, bool) {
    let (mut redactor, mut out, mut rest) = (Redactor::new(rules, is_json), String::new(), text);
    while !rest.is_empty() {
        let (slice, after) = rest.split_at(rest.ceil_char_boundary(bytes.min(rest.len())));
        redactor.push(slice, &mut out);
        rest = after;
    }
    redactor.finish(&mut out);
    (out, redactor.found())
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let rules = Rules::default();
    for is_json in [false, true] {
        let whole = redacted(&rules, text, is_json, usize::MAX);
        assert_eq!(whole, redacted(&rules, text, is_json, usize::from(seed) + 1));
        assert!(whole.1 || whole.0 == text);
    }
    let quoted = serde_json::to_string(text).expect("a string");
    let unquoted: Option<String> = serde_json::from_str(&redacted(&rules, &quoted, true, usize::from(seed) + 1).0).ok();
    assert_eq!(unquoted, Some(redacted(&rules, text, false, usize::MAX).0));
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let (out, _) = redacted(&rules, text, true, usize::MAX);
    assert!(!is_json(text) || is_json(&out), "{text} became {out}");
});
