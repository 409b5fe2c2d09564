//! Estimated tokens: the vectors that the package for Python, the policy in JavaScript and `tests/tools` are tested with too.

use std::fmt::Write as _;

use lro_tests::synthetic;
use lro_tests::vectors::Vector;

/// What texts are made of: each class of characters, runs of them, and what stands where the rule changes.
const PIECES: [&str; 44] = [
    "a",
    "t",
    "T",
    "th",
    "The",
    "to",
    "data",
    "area",
    "VIA",
    "viA ",
    "HTTPServer",
    "userId",
    "straße",
    "Über",
    "école",
    "abcdefgh",
    "abcdefghi",
    "abcdefghijklmnopqrstuvwxyz",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿ",
    "0",
    "12",
    "123",
    "1234",
    "20251120",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\n\n\n",
    ".",
    "...",
    "\",\"",
    "{\"",
    "=====",
    "\u{1}",
    "привет",
    "ѐ",
    "λόγος",
    "漢字",
    "かな",
    "한글",
    "📦",
];

fn texts() -> Vec<String> {
    let mut state = 1_u64;
    let mut next = |most: usize| {
        // The generator of Knuth's MMIX.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let mut mixed = || (0..1 + next(40)).map(|_| PIECES[next(PIECES.len())]).collect::<String>();
    let mut texts = vec![String::new(), synthetic::payload(20)];
    texts.extend(PIECES.map(str::to_owned));
    texts.extend((0..200).map(|_| mixed()));
    texts
}

#[test]
fn estimates_are_those_of_the_vectors() {
    let mut vectors = "[\n".to_owned();
    for (index, text) in texts().iter().enumerate() {
        let comma = if index == 0 { "" } else { ",\n" };
        let text_json = serde_json::to_string(text).unwrap();
        write!(vectors, "{comma}  {{ \"text\": {text_json}, \"tokens\": {} }}", lro_jsonl::tokens(text)).unwrap();
    }
    vectors.push_str("\n]\n");
    let path = Vector::folder().join("tokens/estimates.json");
    if std::env::var_os("LRO_WRITE_VECTORS").is_some() {
        std::fs::write(&path, &vectors).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == vectors, "{} differs; write it with LRO_WRITE_VECTORS=1, and review it", path.display());
}
