//! For any document with secrets anywhere, the policy writes the same as the default policy does without the secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use lro_host::policy::Policy;
use lro_host::sandbox::{Limits, Part, PartKind, Payload, Verdict};
use lro_host::settings::{DecisionMode, DescriptorDialect, DescriptorLevel, PolicySettings};
use lro_tests::{call_of, default_policy, request, settings};
use proptest::prelude::*;
use proptest::sample::select;
use tempfile::TempDir;

use crate::{REPLACEMENT, SECRETS, assert_clean, redacting, redacting_policy};

/// A text with and without its secrets. Both are JSON, or the inside of a JSON string.
type Pair = (String, String);

/// A string that may contain a secret, in one of several spellings.
fn inside() -> impl Strategy<Value = Pair> {
    let before = select(vec!["", "", " ", "kind: ", "文 ", "\\n", "\\\"", "\\ud83d\\ude00 "]);
    let after = select(vec!["", "", " ", "; kind", "文", "\\n", "\\\"", "\\ud83d\\ude00"]);
    let spelled = |(secret, escapes): (&str, bool)| {
        let escape = |character: char| format!("\\u{:04x}", u32::from(character));
        if escapes { secret.chars().map(escape).collect() } else { secret.to_owned() }
    };
    let secret = prop_oneof![
        2 => Just((String::new(), String::new())),
        1 => (select(SECRETS.to_vec()), any::<bool>()).prop_map(move |pair| (spelled(pair), REPLACEMENT.to_owned())),
    ];
    let joined =
        |(before, (secret, safe), after)| (format!("{before}{secret}{after}"), format!("{before}{safe}{after}"));
    (before, secret, after).prop_map(joined)
}

fn value() -> impl Strategy<Value = Pair> {
    let quoted = |(whole, safe): Pair| (format!("\"{whole}\""), format!("\"{safe}\""));
    let leaf = prop_oneof![
        4 => inside().prop_map(quoted),
        2 => select(vec!["12345678901234567890", "1.0", "-1e2", "null", "true", "0.4012888888881881"])
            .prop_map(|text| (text.to_owned(), text.to_owned())),
        1 => Just((SECRETS[1].to_owned(), quoted((String::new(), REPLACEMENT.to_owned())).1)),
    ];
    leaf.prop_recursive(3, 40, 5, |inner| {
        let member = prop_oneof![
            6 => (inside(), inner.clone()).prop_map(|(key, value)| {
                (format!("\"{}\" : {}", key.0, value.0), format!("\"{}\" : {}", key.1, value.1))
            }),
            1 => inner.clone().prop_map(|(value, _)| {
                let secret = format!(r#"{{"s3cret":[{value},"s3cret"]}}"#);
                (format!("\"password\":{secret}"), format!("\"password\":\"{REPLACEMENT}\""))
            }),
        ];
        let join = |open: &'static str, close: &'static str| {
            move |pairs: Vec<Pair>| {
                let (whole, safe): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
                (format!("{open}{}{close}", whole.join(",")), format!("{open}{}{close}", safe.join(",")))
            }
        };
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(join("[", "]")),
            prop::collection::vec(member, 0..5).prop_map(join("{ ", "\n}")),
        ]
    })
}

/// A document with sections, small members and large ones.
fn document() -> impl Strategy<Value = Pair> {
    let rows = (prop::collection::vec(value(), 1..6), select(vec![1_usize, 20, 600]));
    (rows, value(), inside(), any::<bool>()).prop_map(|((rows, times), other, (name, safe), is_object)| {
        let whole: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
        let rest: Vec<&str> = rows.iter().map(|row| row.1.as_str()).collect();
        let repeated = |rows: &[&str]| format!("[{}]", vec![rows.join(","); times].join(",\n"));
        let (whole, rest) = (repeated(&whole), repeated(&rest));
        if !is_object {
            return (whole, rest);
        }
        let object = |name: &str, other: &str, rows: &str| {
            let long = format!("{name} ").repeat(300);
            format!(r#"{{"name":"{name}","{name} rows":{rows},"session":"{name}","other":{other},"long":"{long}"}}"#)
        };
        (object(&name, &other.0, &whole), object(&safe, &other.1, &rest))
    })
}

fn parts(kind: PartKind, text: &str) -> Arc<Payload> {
    Arc::new(Payload::new(vec![Part::text(kind, text.to_owned().into()).unwrap().with_name("file:///a/b")]))
}

/// All files, and the descriptor: with its files, their schemas and queries, and the notes.
fn written(policy: &Policy, settings: &PolicySettings, payload: &Arc<Payload>) -> (BTreeMap<String, Vec<u8>>, String) {
    let (call, limits) = (call_of(request(settings.clone())), Limits::default());
    let (verdict, _) = policy.prepared().inspect(&limits, &call, payload).unwrap();
    let Verdict::Offload(plan) = verdict else { panic!("{verdict:?}") };
    let directory = TempDir::new().unwrap();
    let (written, cost) = policy.prepared().write(&limits, &call, payload, &plan, directory.path()).unwrap();
    assert!(cost.memory_bytes < 8 << 20, "{cost:?}");
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
    });
    (files.collect(), format!("{:?} {plan:?}", written.descriptor))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    // Byte for byte, at every level.
    #[test]
    fn the_rest_is_written_as_by_the_default_policy(
        (whole, safe) in document(),
        kind in select(vec![PartKind::Structured, PartKind::Text]),
        level in select(vec![DescriptorLevel::Pointer, DescriptorLevel::Standard, DescriptorLevel::Full]),
        dialect in select(vec![DescriptorDialect::Sections, DescriptorDialect::Specification]),
        inline_keys in prop::collection::vec(select(vec!["name", "other", "/other/0"]), 0..3),
        session_key in select(vec![None, Some("session".to_owned())]),
    ) {
        let inline_keys = inline_keys.into_iter().map(str::to_owned).collect();
        let mode = DecisionMode::Always;
        let settings = PolicySettings { mode, level, dialect, inline_keys, session_key, ..settings() };
        let found = written(&redacting_policy(), &settings, &parts(kind, &whole));
        let wanted = written(&default_policy(), &settings, &parts(kind, &safe));
        prop_assert_eq!(&found.1, &wanted.1);
        for (name, bytes) in &wanted.0 {
            let (bytes, other) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&found.0[name]));
            prop_assert_eq!(&other, &bytes, "{}", name);
        }
        prop_assert_eq!(found.0.len(), wanted.0.len());
    }

    // Whatever the settings, the place and the size.
    #[test]
    fn no_secret_gets_anywhere(
        (whole, safe) in document(),
        kind in select(vec![PartKind::Structured, PartKind::Text, PartKind::Block, PartKind::Meta]),
        before in select(vec!["", "Result: "]),
        mode in select(vec![DecisionMode::Always, DecisionMode::BySize, DecisionMode::Never]),
        action in select(vec![lro_host::settings::Action::Offload, lro_host::settings::Action::Truncate]),
        is_error: bool,
    ) {
        let root = TempDir::new().unwrap();
        let mut request = request(PolicySettings { mode, action, ..settings() });
        request.is_error = is_error;
        request.query = Some(whole.clone());
        let before = if kind == PartKind::Text { before } else { "" };
        // Secret fields exist only in JSON.
        let is_clean = whole == safe;
        if before.is_empty() || !whole.contains("\"password\"") && !whole.contains("\\u00") {
            let decision = redacting(root.path()).apply(&request, &parts(kind, &format!("{before}{whole}")));
            prop_assert!(decision.failure.is_none(), "{:?}", decision.failure);
            match &decision.outcome {
                lro_host::filter::Outcome::Offload(_) => assert_clean(&decision, root.path()),
                other => prop_assert!(is_clean, "{:?}: {}", other, whole),
            }
        }
    }
}
