//! Another policy takes the place of the first in the composed bytes, without a composer.

use lro_host::compose::{Files, compose};
use lro_host::policy::DEFAULT_POLICY;
use lro_tests::component;

use crate::support::{Composed, request};

/// The number of the section of a nested component.
const COMPONENT: u8 = 4;

fn leb128(bytes: &[u8]) -> (usize, usize) {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let value = bytes[..length].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, length)
}

/// What the packages do: the last nested component is the policy.
fn replaced(composed: &[u8], policy: &[u8]) -> Vec<u8> {
    let (mut at, mut last) = (8, 0..0);
    while at < composed.len() {
        let (size, length) = leb128(&composed[at + 1..]);
        let end = at + 1 + length + size;
        if composed[at] == COMPONENT {
            last = at..end;
        }
        at = end;
    }
    let mut size = Vec::new();
    let mut left = policy.len();
    while left >= 0x80 {
        size.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    size.push(left as u8);
    [&composed[..last.start], &[COMPONENT], &size, policy, &composed[last.end..]].concat()
}

#[test]
fn a_policy_takes_the_place_of_another() {
    let redact = component("lro_redact.wasm");
    for files in [Files::Memory, Files::Directory] {
        let composed = compose(DEFAULT_POLICY, files).unwrap();
        let swapped = replaced(&composed, &redact);
        assert!(swapped == compose(&redact, files).unwrap(), "not what composing gives");
        assert!(replaced(&swapped, DEFAULT_POLICY) == composed, "not what it was");
    }
    let swapped = replaced(&compose(DEFAULT_POLICY, Files::Memory).unwrap(), &redact);
    let reply = Composed::of_bytes(&swapped, Files::Memory)
        .instance()
        .filter(&request("{}"), r#"{"content":[{"type":"text","text":"write to jane.doe@example.com"}]}"#);
    let text = reply.unwrap().tool_result.unwrap();
    assert!(!text.contains("jane.doe@example.com"), "{text}");
}
