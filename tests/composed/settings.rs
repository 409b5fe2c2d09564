//! Settings are checked by the component, with errors that name them.

use lro_host::compose::Files;
use lro_host::policy::DEFAULT_POLICY;

use crate::support::{Composed, Error, request};

#[test]
fn errors_name_the_setting() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let mut error = |settings: &str| match instance.check(settings) {
        Err(Error::Settings(text)) => text,
        other => panic!("{settings}: {other:?}"),
    };
    assert_eq!(error(r#"{"treshold":1}"#), "`treshold` is not a setting");
    assert_eq!(error(r#"{"threshold":-5}"#), "`threshold` is -5: invalid value: integer `-5`, expected a nonzero u64");
    assert_eq!(error(r#"{"threshold":0}"#), "`threshold` is 0: invalid value: integer `0`, expected a nonzero u64");
    assert_eq!(
        error(r#"{"level":"medium"}"#),
        "`level` is \"medium\": unknown variant `medium`, expected one of `pointer`, `standard`, `full`"
    );
    assert_eq!(error(r#"{"preset":"x"}"#), "`preset` is \"x\": expected `1600-tokens` or `25k`");
    assert_eq!(error(r#"{"schema":"shape"}"#), "`schema` is \"shape\": expected `rewrite` or `strip`");
    assert!(error(r#"{"limits":{"bytes":1}}"#).starts_with("`limits` is {\"bytes\":1}: unknown field `bytes`"));
    assert!(error("[]").starts_with("expected a JSON object: "));
    assert!(error(r#"{"sections":[{"key":"a","schema":"{"}]}"#).starts_with("`sections` is "));
}

#[test]
fn bad_requests_are_errors_and_no_traps() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let mut wrong = request("{}");
    wrong.id = "01m8490htvfqbcbzezzhxgsejt".to_owned();
    let error = instance.filter(&wrong, r#"{"content":[]}"#).unwrap_err();
    assert!(matches!(&error, Error::Id(text) if text.contains("a ULID is 26 characters")), "{error:?}");
    for result in
        ["", "nothing", "[]", "{", r#"{"content":1}"#, r#"{"content":[],"content":[]}"#, "{\"content\":[\"\u{0}"]
    {
        let error = instance.filter(&request("{}"), result).unwrap_err();
        assert!(matches!(error, Error::ToolResult(_)), "{result:?}: {error:?}");
    }
    assert!(instance.filter(&request("{}"), r#"{"content":[]}"#).is_ok(), "the instance goes on");
}
