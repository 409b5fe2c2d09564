//! The calls of the vectors. Texts and numbers are arbitrary, chosen to show one thing each.

use std::fmt::Write;

use lro_host::sandbox::PartKind;
use lro_host::sandbox::types::Abilities;
use lro_host::settings::{
    Action, DescriptorDialect, DescriptorLevel, PolicySettings, Recipe, SectionRule, Size, SizeUnit, SummaryKind,
    SummaryRule,
};

use super::kinds::kinds;
use super::{Content, Input, Vector};
use crate::{always, always_full, settings, synthetic};

/// Records of the large vector, as in the benchmarks.
const RECORDS: usize = 100_000;

/// Name of the large vector, whose time is measured.
pub const LARGE: &str = "records-100000";

/// Vectors of the default policy.
pub fn default_policy() -> Vec<Vector> {
    let mut vectors = vec![
        Vector::new("small-passes", "At most the threshold: passes", settings(), vec![structured(orders(2))]),
        at_the_threshold("threshold-not-exceeded", 101),
        at_the_threshold("threshold-exceeded", 100),
        Vector::new("one-section", "An array of records, found by the policy", always(), vec![structured(orders(100))]),
        lossless(),
        several_sections(),
        section_rules(),
        Vector::new("keyed-object", "A section of members", always_full(), vec![structured(keyed(240))]),
        Vector::new("whole-value", "The whole value is an array", always(), vec![structured(array(3))]),
        Vector::new("json-in-a-text", "A text that is JSON is taken for JSON", always(), vec![text(orders(12))]),
        Vector::new(
            "broken-json",
            "A text that only begins as JSON is lines",
            always(),
            vec![text("{\"a\": [1, 2,\nand no more")],
        ),
        Vector::new("lines", "A text in several alphabets, with all kinds of line ends", always(), vec![text(lines())]),
        every_kind_of_part(),
        without_a_shell(),
        Vector::new(
            "specification",
            "The layout of the LRO specification",
            PolicySettings { dialect: DescriptorDialect::Specification, ..always_full() },
            vec![structured(orders(6))],
        ),
        Vector::new(
            "pointer",
            "The least a descriptor tells, nothing inferred",
            PolicySettings { level: DescriptorLevel::Pointer, infer: false, ..always() },
            vec![structured(orders(6))],
        ),
        error_of_the_tool(),
        Vector::new(
            "truncate",
            "Cut instead of written",
            PolicySettings { action: Action::Truncate, truncate_limit: characters(200), ..always() },
            vec![structured(orders(20))],
        ),
        Vector::new(
            "reject",
            "Refused, with the advice of the policy",
            PolicySettings { action: Action::Reject, ..always() },
            vec![structured(orders(20))],
        ),
        Vector::new(
            "reject-with-advice",
            "Refused, with the advice of the settings",
            PolicySettings { action: Action::Reject, advice: "Ask for fewer orders: `limit`.".to_owned(), ..always() },
            vec![structured(orders(20))],
        ),
        Vector::new(
            "invalid-settings",
            "A truncation limit of 0 is an error",
            PolicySettings { truncate_limit: characters(0), ..always() },
            vec![structured(orders(2))],
        ),
    ];
    vectors.extend(kinds());
    let large = Content::Input(format!("{LARGE}.json"), synthetic::payload(RECORDS));
    let parts = vec![Input::new(PartKind::Structured, large)];
    vectors.push(Vector::new(LARGE, "100,000 records, with the default settings", settings(), parts));
    vectors
}

/// Vectors of the redacting policy.
pub fn redacting_policy() -> Vec<Vector> {
    let secrets = concat!(
        r#"{"users":[{"name":"Ada","password":"correct horse","mail":"ada@example.com","card":"4111 1111 1111 1111"},"#,
        r#"{"name":"Grace","password":null,"mail":"none","card":4111111111111111}],"api_key":"sk-0123456789abcdefghij"}"#
    );
    let rules = r#"{"fields": ["password", "/users/*/mail"], "patterns": ["card"], "replacement": "***"}"#;
    let users = PolicySettings { sections: vec![section("users")], ..always() };
    vec![
        Vector::new("clean-passes", "Nothing to redact, and small: passes", settings(), vec![structured(orders(2))]),
        Vector::new("small-secret", "A small result with secrets does not pass", settings(), vec![structured(secrets)]),
        Vector::new(
            "secrets-in-records",
            "Secrets in records that are written",
            users.clone(),
            vec![structured(secrets)],
        ),
        Vector::new(
            "rules",
            "Other fields, patterns and replacement",
            PolicySettings { custom: Some(rules.to_owned()), ..users.clone() },
            vec![structured(secrets)],
        ),
        Vector::new(
            "secret-in-a-text",
            "A secret in lines of text",
            always(),
            vec![text("to: ada@example.com\nkey: sk-0123456789abcdefghij\n")],
        ),
    ]
}

fn at_the_threshold(name: &str, amount: u64) -> Vector {
    // 10 words of 1.15 tokens, 88 ideographs of 1.01: 100.38 tokens, rounded up.
    let mixed = format!("{}{}", "word ".repeat(10), "東".repeat(88));
    let threshold = Size { amount, unit: SizeUnit::Tokens };
    let settings = PolicySettings { threshold, action: Action::Reject, ..settings() };
    Vector::new(name, "A threshold in tokens, and two alphabets", settings, vec![text(mixed)])
}

fn lossless() -> Vector {
    let records = concat!(
        r#"{"rows":[{"integer":123456789012345678901234567890,"float":1.0,"exponent":1e2,"negative":-0,"#,
        r#""escaped":"\u00e9\ud83d\ude00\/\"\\\n","half":"\ud800","same":1,"same":2,"":"empty key"},"#,
        "\n  { \"spaces\" : [ 1 ,\t2 ] , \"letters\" : \"Überprüfung 東京 📦 \u{2028}\" },\n",
        r#"null,true,"text",[[]],{},-1.5E-300]}"#
    );
    let description = "Numbers, escapes, repeated keys and order are kept as they came";
    let settings = PolicySettings { sections: vec![section("rows")], ..always_full() };
    Vector::new("lossless", description, settings, vec![structured(records)])
}

fn several_sections() -> Vector {
    let mut result = String::from(r#"{"request":"r-17","total":2,"note":"kept inline","#);
    let _ = write!(result, r#""long":"{}","#, "long text ".repeat(80));
    let _ = write!(result, r#""orders":{},"page":{{"people":{}}}}}"#, array(12), array(15));
    let settings = PolicySettings {
        sections: vec![section("orders"), section("/page/people")],
        inline_keys: vec!["total".to_owned(), "/request".to_owned(), "missing".to_owned()],
        session_key: Some("request".to_owned()),
        header_type: "lro_header".to_owned(),
        ..always_full()
    };
    let mut vector = Vector::new(
        "several-sections",
        "Sections at two depths, inline keys, a long member",
        settings,
        vec![structured(result)],
    );
    vector.request.session = Some("session 1/ü".to_owned());
    vector.request.query = Some(r#"{"q":"all","limit":27}"#.to_owned());
    vector
}

fn section_rules() -> Vector {
    let rule = SectionRule {
        filename_prefix: Some("../orders of May".to_owned()),
        schema: Some(r#"{"type":"object","required":["id"]}"#.to_owned()),
        summaries: vec![
            SummaryRule { kind: SummaryKind::Range, field: "/price".to_owned() },
            SummaryRule { kind: SummaryKind::TopValues, field: "/status".to_owned() },
            SummaryRule { kind: SummaryKind::Distinct, field: "/customer/city".to_owned() },
        ],
        recipes: vec![Recipe {
            name: "expensive".to_owned(),
            description: "Orders above 40".to_owned(),
            command: "tail -n +2 {file} | jq -c 'select(.price > 40)'".to_owned(),
            query: None,
        }],
        ..section("/orders")
    };
    let settings = PolicySettings { sections: vec![rule, section("nothing")], ..always_full() };
    let description = "A section of the settings, with schema, summaries and recipe, and one that is not there";
    Vector::new("section-rules", description, settings, vec![structured(orders(30))])
}

fn every_kind_of_part() -> Vector {
    let image = Input {
        media_type: Some("image/png".to_owned()),
        ..Input::new(PartKind::Binary, Content::Bytes((0..=255).cycle().take(1500).collect()))
    };
    let resource = Input {
        media_type: Some("text/csv".to_owned()),
        name: Some("file:///reports/may 2026.csv".to_owned()),
        ..text("id,price\n1,10.5\n2,11\n")
    };
    let link = Input::new(
        PartKind::Block,
        Content::Text(r#"{"type":"resource_link","uri":"https://example.com/a","name":"a"}"#.to_owned()),
    );
    let meta = Input::new(PartKind::Meta, Content::Text(r#"{"example.com/cost":12}"#.to_owned()));
    let parts = vec![text("Two orders and a picture."), image, resource, link, structured(orders(12)), meta];
    Vector::new("every-kind-of-part", "Texts, bytes, a block, structured content, metadata", always_full(), parts)
}

fn without_a_shell() -> Vector {
    let mut vector = Vector::new(
        "without-a-shell",
        "A reader that has tools and no shell",
        always_full(),
        vec![structured(orders(9))],
    );
    vector.request.abilities = Abilities::EXTRACT_TOOL | Abilities::READ_TOOL;
    vector
}

fn error_of_the_tool() -> Vector {
    let mut vector = Vector::new("error", "An error of the tool stays in the reply", always(), vec![text(lines())]);
    vector.request.is_error = true;
    vector
}

/// An object with this many records of about 150 bytes.
fn orders(count: usize) -> String {
    format!(r#"{{"orders":{},"total":{count}}}"#, array(count))
}

fn array(count: usize) -> String {
    let mut array = String::from("[");
    for index in 0..count {
        let (comma, price) = (if index > 0 { "," } else { "" }, 9.5 + index as f64 * 1.25);
        let status = ["paid", "open", "späť"][index % 3];
        let _ = write!(array, r#"{comma}{{"id":{},"price":{price},"status":"{status}","#, 1000 + index * 7);
        let _ = write!(array, r#""customer":{{"name":"名前 {index}","city":"City {}"}},"note":null}}"#, index % 4);
    }
    array.push(']');
    array
}

fn keyed(count: usize) -> String {
    let mut members = Vec::with_capacity(count);
    for index in 0..count {
        members.push(format!(r#""host-{index:02}.example":{{"load":{},"up":{}}}"#, index * 3, index % 5 != 0));
    }
    format!(r#"{{"hosts":{{{}}}}}"#, members.join(","))
}

fn lines() -> String {
    let mut text = String::from("first line\r\n\nПривет, мир\tλόγος\n📦 東京\r");
    for index in 0..40 {
        let _ = writeln!(text, "{index:03} {}", "log message ".repeat(index % 4));
    }
    text + "no line feed at the end"
}

fn section(key: &str) -> SectionRule {
    SectionRule { key: key.to_owned(), filename_prefix: None, schema: None, summaries: Vec::new(), recipes: Vec::new() }
}

fn characters(amount: u64) -> Size {
    Size { amount, unit: SizeUnit::Characters }
}

pub(super) fn structured(json: impl Into<String>) -> Input {
    Input::new(PartKind::Structured, Content::Text(json.into()))
}

pub(super) fn text(text: impl Into<String>) -> Input {
    Input::new(PartKind::Text, Content::Text(text.into()))
}
