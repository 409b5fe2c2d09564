//! Names of arguments where files are asked about.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lro_reading::tool::{EXTRACT_TOOL, READ_TOOL, check_names_with_file};
use serde_json::{Value, json};

fn refused(tool: &str, arguments: Value) -> String {
    check_names_with_file(tool, &arguments.to_string()).unwrap_err().message()
}

#[test]
fn errors_name_the_file() {
    assert!(refused(READ_TOOL, json!({})).starts_with("`file` is missing: "));
    assert!(refused(EXTRACT_TOOL, json!({"count": true})).starts_with("`file` is missing: "));
    for (tool, arguments) in
        [(EXTRACT_TOOL, json!({"big": "a.csv"})), (EXTRACT_TOOL, json!({"from": [{"big": "a.csv"}], "sql": ""}))]
    {
        let reason = refused(tool, arguments);
        assert!(
            reason.contains("unknown member `big`") && reason.contains("expected one of `file`, `handle`"),
            "{reason}"
        );
    }
    let reason = refused(EXTRACT_TOOL, json!({"from": [{"section": "records"}], "sql": ""}));
    assert_eq!(reason, "an element of `from` has neither `file` nor `handle`");
    assert!(refused(READ_TOOL, json!({"file": "a", "path": "b"})).contains("`file` is there twice"));
}

#[test]
fn a_file_a_path_or_a_handle_is_enough() {
    for name in ["file", "path", "handle", "Handle"] {
        for (tool, arguments) in [
            (READ_TOOL, json!({ name: "a", "from": 3 })),
            (EXTRACT_TOOL, json!({ name: "a", "where": "id = 1", "limit": 2 })),
            (EXTRACT_TOOL, json!({ name: "a", "from": [{"section": "records"}], "sql": "SELECT 1" })),
            (EXTRACT_TOOL, json!({ "from": [{ name: "a", "as": "t" }], "sql": "SELECT 1" })),
        ] {
            assert_eq!(check_names_with_file(tool, &arguments.to_string()), Ok(()), "{arguments}");
        }
    }
}
