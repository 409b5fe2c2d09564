//! Measuring in pieces equals measuring the whole, and compact JSON measures like its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lro_jsonl::Measure;

fn sizes(measure: &Measure) -> (u64, u64, u64) {
    (measure.bytes(), measure.characters(), measure.tokens())
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    for empty in [Measure::json(), Measure::text()] {
        let (mut whole, mut pieces) = (empty.clone(), empty);
        whole.push(text);
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary((usize::from(seed) + 1).min(rest.len())));
            pieces.push(piece);
            rest = after;
        }
        assert_eq!(sizes(&whole), sizes(&pieces));
    }
    let mut measure = Measure::text();
    measure.push(text);
    assert_eq!(measure.characters(), text.chars().count() as u64);
});
