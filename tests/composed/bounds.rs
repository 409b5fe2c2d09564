//! What a policy may write is bounded while it is written, and failures have the outcome that the setting `failure` says.

use lro_host::compose::{ComposeError, Files, compose};
use lro_host::policy::DEFAULT_POLICY;
use lro_tests::workspace;
use serde_json::json;

use crate::support::{Composed, Instance, Outcome, Reply, request};

fn large() -> String {
    let rows: Vec<_> = (0..3000).map(|index| json!({"id": index, "name": format!("row {index}")})).collect();
    json!({"content": [], "structuredContent": {"rows": rows, "others": vec![json!({"a": 1, "b": [2]}); 3000]}})
        .to_string()
}

fn filter(files: Files, settings: &str) -> (Reply, Instance) {
    let mut instance = Composed::new(DEFAULT_POLICY, files).instance();
    let reply = instance.filter(&request(settings), &large()).unwrap();
    (reply, instance)
}

#[test]
fn each_bound_has_its_own_error() {
    let bounds = [
        (r#""written-bytes":5000"#, "the policy wrote more than 5000 bytes (limit written-bytes)"),
        (r#""files":1"#, "the policy created more than 1 files (limit files)"),
        (r#""open-files":1"#, "the policy held more than 1 files open at the same time (limit open-files)"),
    ];
    for (bound, error) in bounds {
        for files in [Files::Memory, Files::Directory] {
            let (reply, instance) = filter(files, &format!(r#"{{"limits":{{{bound}}}}}"#));
            let failure = reply.failure.unwrap();
            assert_eq!((failure.reason.as_str(), failure.false_answer), (error, false));
            // The policy had decided to write, so a part of the result goes on.
            assert_eq!((reply.outcome, reply.files.len()), (Outcome::Truncate, 0));
            let text = reply.tool_result.unwrap();
            assert!(text.contains("The result could not be written to files"), "{text}");
            if files == Files::Directory {
                assert_eq!(instance.names(), Vec::<String>::new(), "files are left");
            }
        }
    }
    let (reply, _) = filter(Files::Memory, r#"{"limits":{"name-bytes":8}}"#);
    assert!(reply.failure.unwrap().reason.contains("its output could not be written"));
}

#[test]
fn failure_modes() {
    let limits = r#""limits":{"files":1}"#;
    let (reply, _) = filter(Files::Memory, &format!(r#"{{"failure":"closed",{limits}}}"#));
    assert_eq!(reply.outcome, Outcome::Fail);
    assert_eq!(
        reply.tool_result.unwrap(),
        r#"{"content":[{"type":"text","text":"the result could not be filtered: the policy created more than 1 files (limit files)"}],"isError":true}"#
    );
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let failed = |settings: &str, wrote: bool| {
        composed.instance().failed(&request(settings), &large(), "the policy took longer than 5 ms", wrote)
    };
    let open = failed("{}", false);
    assert_eq!((open.outcome, open.tool_result.is_none()), (Outcome::Pass, true));
    assert_eq!(open.failure.unwrap().reason, "the policy took longer than 5 ms");
    assert_eq!(failed("{}", true).outcome, Outcome::Truncate);
    assert_eq!(failed(r#"{"failure":"truncate"}"#, false).outcome, Outcome::Truncate);
    assert_eq!(failed(r#"{"failure":"closed"}"#, false).outcome, Outcome::Fail);
}

#[test]
fn what_is_no_policy_is_not_composed() {
    let error = |bytes: &[u8]| compose(bytes, Files::Memory).unwrap_err();
    assert!(matches!(error(b"not wasm"), ComposeError::Invalid(_)));
    assert!(matches!(error(b"\0asm\x01\0\0\0"), ComposeError::Module));
    assert!(matches!(error(b"\0asm\x0d\0\x01\0"), ComposeError::NotAPolicy));
    let clock = wat::parse_str(
        r#"(component
            (import "wasi:http/types@0.2.12" (instance))
            (component $empty)
            (instance $filter (instantiate $empty))
            (export "lro:filter/lro-filter@0.2.0" (instance $filter)))"#,
    )
    .unwrap();
    let found = error(&clock);
    assert_eq!(found.to_string(), "it imports `wasi:http/types@0.2.12`, which no policy can have");
    let empty = wat::parse_str(
        r#"(component
            (component $empty)
            (instance $filter (instantiate $empty))
            (export "lro:filter/lro-filter@0.2.0" (instance $filter)))"#,
    )
    .unwrap();
    assert!(matches!(error(&empty), ComposeError::Unfit(_)));
    assert!(workspace().join("wit/adapter/world.wit").exists());
}
