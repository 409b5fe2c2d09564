//! Tool results by audience.

use bytes::Bytes;
use lro_mcp::{Output, OutputsError, RequestedOutputs, with_outputs};
use serde_json::{Value, json};

const ALL: &str = r#"[{"audience":"user","format":"content"},{"audience":"programmatic","format":"structured"}]"#;

fn of_result(requested: &str, result: &str) -> Result<Value, String> {
    let requested = RequestedOutputs::read(requested.as_bytes()).map_err(|error| error.to_string())?;
    let result = Bytes::from(result.to_owned());
    let shaped = requested.of_result(&result, Ok(&result))?;
    serde_json::from_slice(&shaped).map_err(|error| error.to_string())
}

#[test]
fn requests_are_read_or_refused() {
    let fallback = RequestedOutputs::read(br#"[{"audience":"assistant","format":"content","new":1}]"#).unwrap();
    assert_eq!(fallback, RequestedOutputs::default());
    assert!(fallback.is_fallback() && fallback.has_assistant() && !fallback.has_whole());
    let all = RequestedOutputs::read(ALL.as_bytes()).unwrap();
    assert!(all.has_whole() && !all.has_assistant());
    assert_eq!(all.structured().unwrap().to_string(), "programmatic/structured");
    assert_eq!(Output::FALLBACK.to_string(), "assistant/content");
    let refused = |json: &str| RequestedOutputs::read(json.as_bytes()).unwrap_err();
    assert!(matches!(refused("[]"), OutputsError::Empty));
    assert!(matches!(refused(r#"{"audience":"user"}"#), OutputsError::Syntax(_)));
    assert!(matches!(refused(r#"[{"audience":"user","format":"text"}]"#), OutputsError::Unknown { .. }));
    let twice = r#"[{"audience":"user","format":"content"},{"audience":"user","format":"content"}]"#;
    assert!(matches!(refused(twice), OutputsError::Twice(_)));
}

#[test]
fn other_members_stay_and_halves_go() {
    let result = r#"{ "resultType":"complete", "content":[{"type":"text","text":"a"}] , "_meta":{"k":1.0},"structuredContent":{"b":2},"more":3}"#;
    let found = of_result(ALL, result).unwrap();
    let outputs = json!([
        {"audience": "user", "format": "content", "content": [{"type": "text", "text": "a"}]},
        {"audience": "programmatic", "format": "structured", "structuredContent": {"b": 2}},
    ]);
    assert_eq!(found, json!({"resultType": "complete", "_meta": {"k": 1.0}, "more": 3, "outputs": outputs}));
    // A result that is not complete, and a scalar as structured content.
    let question = r#"{"resultType":"input_required","content":[]}"#;
    assert_eq!(of_result(ALL, question).unwrap(), serde_json::from_str::<Value>(question).unwrap());
    assert_eq!(
        of_result(ALL, r#"{"content":[],"structuredContent":0}"#).unwrap()["outputs"][1]["structuredContent"],
        0
    );
}

#[test]
fn what_is_missing_is_said() {
    let found = of_result(ALL, r#"{"content":[],"structuredContent":null,"isError":false}"#).unwrap();
    assert_eq!((&found["isError"], found["outputs"].as_array().unwrap().len()), (&json!(true), 1));
    let text = found["outputs"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "no output programmatic/structured: the result has no structured content");
    let error =
        r#"{"content":[{"type":"text","text":"no table"},{"type":"text","text":"of that name"}],"isError":true}"#;
    assert_eq!(of_result(ALL, error).unwrap()["outputs"].as_array().unwrap().len(), 1);
    let program = r#"[{"audience":"programmatic","format":"structured"}]"#;
    assert_eq!(of_result(program, error).unwrap_err(), "no table\nof that name");
    assert!(of_result(program, "{}").unwrap_err().contains("no structured content"));
}

#[test]
fn definitions_are_declared_in_any_order_of_members() {
    for definition in [
        r#"{"outputSchema":{"type":"object"},"name":"a"}"#,
        r#"{"name":"a","outputSchema":{"type":"object"}}"#,
        r#"{"outputSchema":{"type":"object"},"outputVariants":[1],"name":"a"}"#,
        r#"{"outputVariants":[],"outputSchema":{"type":"object"},"name":"a"}"#,
        r#"{"name":"a","outputVariants":[],"outputSchema":{"type":"object"}}"#,
    ] {
        let declared: Value = serde_json::from_str(&with_outputs(definition)).unwrap();
        assert_eq!(declared.as_object().unwrap().len(), 2, "{definition}: {declared}");
        assert_eq!(declared["outputVariants"].as_array().unwrap().len(), 5, "{definition}");
    }
    let only: Value = serde_json::from_str(&with_outputs(r#"{"outputSchema":{}}"#)).unwrap();
    assert_eq!(only.as_object().unwrap().len(), 1);
    let plain: Value = serde_json::from_str(&with_outputs(r#"{"name":"a"}"#)).unwrap();
    assert_eq!(plain["outputVariants"].as_array().unwrap().len(), 2);
}
