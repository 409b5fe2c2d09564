//! No secret passes, wherever it is and wherever the slices end; everything else is preserved.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use lro_redact::{MATCH_BYTES_MAX, REPLACEMENT, Redactor, Rules};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

/// An empty private key.
const BLOCK: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/IBAAK\nCAQEA=\n-----END RSA PRIVATE KEY-----";

const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";

fn redact(rules: &Rules, text: &str, is_json: bool, cuts: &[usize]) -> String {
    let (mut redactor, mut out, mut from) = (Redactor::new(rules, is_json), String::new(), 0);
    for &cut in cuts {
        let to = text.floor_char_boundary(from.max(cut));
        redactor.push(&text[from..to], &mut out);
        from = to;
    }
    redactor.push(&text[from..], &mut out);
    redactor.finish(&mut out);
    // The redactor reports whether it removed anything.
    assert!(redactor.found() == (out != text) || text.contains(REPLACEMENT), "{text:.200}");
    out
}

fn text(text: &str) -> String {
    redact(&Rules::default(), text, false, &[])
}

fn json(text: &str) -> String {
    redact(&Rules::default(), text, true, &[])
}

/// Slices of the same length.
fn every(length: usize, text: &str) -> Vec<usize> {
    (1..).map(|number| number * length).take_while(|cut| *cut < text.len()).collect()
}

#[test]
fn known_secrets_are_taken_out() {
    let secrets = [
        "bob@example.com",
        "first.last+tag@mail.example.co.uk",
        "josé@example.com",
        "иван@почта.рф",
        "4111111111111111",
        "4111 1111 1111 1111",
        "5500-0000-0000-0004",
        "3782 822463 10005",
        "6011000990139424",
        "4222222222222",
        "sk-proj-abcDEF0123456789_xyz",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_11ABCDEFG0123456789_abcdefghij",
        "xoxb-123456789012-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        TOKEN,
        BLOCK,
    ];
    for secret in secrets {
        for (before, after) in [("", ""), ("a ", " b"), ("(", ")"), ("文", "。"), ("<", ">, and"), (": ", "?\n")] {
            let wanted = format!("{before}{REPLACEMENT}{after}");
            assert_eq!(text(&format!("{before}{secret}{after}")), wanted);
            let value = |inside: &str| serde_json::json!({ "a": [inside] }).to_string();
            assert_eq!(json(&value(&format!("{before}{secret}{after}"))), value(&wanted));
        }
    }
    assert_eq!(text("mail a@b.com...or c@d.org.2"), "mail [redacted]...or [redacted].2");
    assert_eq!(text(r"\n4111111111111111\tsk-s3cret0123456789abcdef"), r"\n[redacted]\t[redacted]");
    assert_eq!(text(r"C:\sk-s3cret0123456789abcdef \neyJhbGci.eyJzdWIi.x"), r"C:\[redacted] \n[redacted]");
    assert_eq!(text("https://user:secret@host.example/x"), "https://user:[redacted]/x");
}

#[test]
fn what_only_resembles_a_secret_stays() {
    let harmless = [
        "4111111111111112",
        "1700000000000 1700000000006",
        "0.4111111111111111",
        "4111111111111111.5",
        "a4111111111111111 4111111111111111b",
        "41111111111111110000",
        "user@localhost @example.com a@10.0.0.1",
        "risk-assessment task-force-of-the-century sk-short",
        "eyJvZmZzZXQiOjUwfQ",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "ghp_short AKIA npm_config",
    ];
    for text in harmless {
        assert_eq!(self::text(text), text);
        let value = serde_json::json!({ text: text }).to_string();
        assert_eq!(json(&value), value);
    }
    let numbers = "[4111111111111112,0.4111111111111111,4111111111111111.5,1e4111111111111111,-1.5E-3]";
    assert_eq!(json(numbers), numbers);
}

#[test]
fn numbers_and_keys_are_looked_at() {
    assert_eq!(json("[ 4111111111111111 , 2]"), r#"[ "[redacted]" , 2]"#);
    assert_eq!(json("4111111111111111"), r#""[redacted]""#);
    assert_eq!(json("[-4111111111111111,1]"), r#"["[redacted]",1]"#);
    assert_eq!(json("[1e+4111111111111111]"), r#"["[redacted]"]"#);
    assert_eq!(json(r#"{"bob@example.com":1}"#), r#"{"[redacted]":1}"#);
}

#[test]
fn escapes_do_not_hide_anything() {
    assert_eq!(json(r#""a\u0062 bob\u0040example\u002ecom\n""#), r#""a\u0062 [redacted]\n""#);
    assert_eq!(json(r#"{"p\u0061ssword":"x\"y"}"#), r#"{"p\u0061ssword":"[redacted]"}"#);
    assert_eq!(json(r#""\ud800\\\u0062ob@example.com\ud83d\ude00""#), r#""\ud800\\[redacted]\ud83d\ude00""#);
    let block = serde_json::to_string(BLOCK).unwrap();
    assert_eq!(json(&format!("[{block},{block}]")), r#"["[redacted]","[redacted]"]"#);
    // Not JSON, although it begins like it: what only looks like an escape takes nothing along.
    let path = r#"["C:\users\me bob@example.com"]"#;
    for length in 1..path.len() {
        assert!(!redact(&Rules::default(), path, true, &every(length, path)).contains("bob"), "{length}");
    }
    // A character that needs no escape, in the middle of a card number.
    let number = r#"["4111\1\11111111111","x"]"#;
    for length in 1..=number.len() {
        let out = redact(&Rules::default(), number, true, &every(length, number));
        assert_eq!(out, r#"["[redacted]","x"]"#, "{length}");
    }
    // JSON inside a JSON string.
    assert_eq!(json(&serde_json::to_string(&format!("k: {block}")).unwrap()), r#""k: \"[redacted]\"""#);
}

#[test]
fn values_of_secret_fields_are_taken_out_whole() {
    let secrets = [r#""x \" , } ""#, "1.5e3", "null", "true", "{}", r#"{"a":[1,{"b":"]}"}]}"#, "[[],2]", "\"\""];
    for secret in secrets {
        for key in ["password", "apiKey", "API-KEY", "X-Api-Key", "Authorization", "access_token"] {
            for (length, space) in [(1, ""), (3, " "), (1000, "\n\t")] {
                let document = |value: &str| {
                    format!(r#"{{"a":[{{"{key}"{space}:{space}{value}{space}}},{{"token":{value},"b":1}}]}}"#)
                };
                let whole = document(secret);
                let redacted = redact(&Rules::default(), &whole, true, &every(length, &whole));
                assert_eq!(redacted, document("\"[redacted]\""));
            }
        }
    }
    let harmless = r#"{"tokens":1,"max_token":2,"pass":"word","a":"password","b":["token","secret"]}"#;
    assert_eq!(json(harmless), harmless);
}

#[test]
fn pointers_name_one_place() {
    let rules = Rules::read(r#"{"fields":["/users/*/ssn","/a~1b/0","pin","/x"],"patterns":[]}"#).unwrap();
    let document = r#"{"users":[{"ssn":"1","id":1},{"id":2,"ssn":{"a":2}},{"deep":{"ssn":3,"PIN":4}}],"ssn":5,"a/b":[6,7],"password":"bob@example.com","n":{"x":8}}"#;
    let wanted = r#"{"users":[{"ssn":"[redacted]","id":1},{"id":2,"ssn":"[redacted]"},{"deep":{"ssn":3,"PIN":"[redacted]"}}],"ssn":5,"a/b":["[redacted]",7],"password":"bob@example.com","n":{"x":8}}"#;
    for length in 1..40 {
        assert_eq!(redact(&rules, document, true, &every(length, document)), wanted);
    }
    let all = Rules::read(r#"{"fields":["/*"],"replacement":"\"\n","patterns":[]}"#).unwrap();
    assert_eq!(redact(&all, r#"{"a":1,"b":{}}"#, true, &[]), r#"{"a":"\"\n","b":"\"\n"}"#);
    assert_eq!(redact(&all, "[[],1]", true, &[]), r#"["\"\n","\"\n"]"#);
}

#[test]
fn unknown_and_malformed_settings_are_refused() {
    for (custom, wrong) in [
        ("", "ends too early"),
        ("[]", "not an object"),
        (r#"{"field":[]}"#, "unknown member `field`"),
        (r#"{"fields":"a"}"#, "`fields`: not an array"),
        (r#"{"fields":[1]}"#, "`fields`: expected a string, not 1"),
        (r#"{"fields":[""]}"#, "names no key"),
        (r#"{"patterns":["iban"]}"#, "not `iban`"),
        (r#"{"replacement":null}"#, "`replacement`: expected a string"),
        (r#"{"binary":true}"#, "`binary`: expected"),
        (r#"{"binary":"drop"}}"#, "mismatched bracket"),
    ] {
        let error = Rules::read(custom).unwrap_err();
        assert!(error.contains(wrong), "{custom}: {error}");
    }
    assert_eq!(Rules::read("{}").unwrap(), Rules::default());
}

/// Secrets longer than the match limit are removed to their end, and the ones after them are found.
#[test]
fn long_texts_hide_nothing() {
    let filler = "lorem ipsum ".repeat(MATCH_BYTES_MAX / 4);
    let long = [
        format!("sk-{}", "aB3".repeat(MATCH_BYTES_MAX)),
        format!("eyJh.eyJ{}.c", "aB3".repeat(MATCH_BYTES_MAX)),
        format!("-----BEGIN PRIVATE KEY-----\n{}", "aB3\n".repeat(MATCH_BYTES_MAX)),
    ];
    for secret in long {
        let texts = [format!("{filler}{secret}"), format!("{filler}{secret}. bob@example.com {filler}")];
        let wanted = [
            format!("{filler}{REPLACEMENT}"),
            format!("{filler}{REPLACEMENT}{}[redacted] {filler}", if secret.starts_with("eyJ") { " " } else { ". " }),
        ];
        for (text, wanted) in texts.iter().zip(&wanted) {
            for length in [997, 5000, MATCH_BYTES_MAX, 1 << 20] {
                assert!(
                    redact(&Rules::default(), text, false, &every(length, text)) == *wanted,
                    "{length} {:.20}",
                    secret
                );
                let (value, wanted) = (serde_json::to_string(text).unwrap(), serde_json::to_string(wanted).unwrap());
                assert!(
                    redact(&Rules::default(), &value, true, &every(length, &value)) == wanted,
                    "{length} {:.20}",
                    secret
                );
            }
        }
    }
}

/// Time grows linearly with the text, whatever its depth or content.
#[test]
fn hostile_texts_take_linear_time() {
    let before = processor_ticks();
    for piece in [
        "eyJ-",
        "-eyJ.",
        "a@",
        "@a.",
        "4444 ",
        "sk-",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "[",
        "{\"token\":",
        "\\",
        "\"\\u00",
        "\"password\"",
        "a.@",
        "[[\"token\",",
        "[[\"token\"],",
        "{\"columns\":[\"token\"],\"rows\":[[",
        "\"columns\": ",
        "[ ",
        "['",
        "<table>",
        "<tr><th colspan=100>token<td>",
        "<td ",
        "<!--",
        "<script><",
    ] {
        let hostile = piece.repeat(2_000_000 / piece.len());
        for is_json in [false, true] {
            redact(&Rules::default(), &hostile, is_json, &every(256 << 10, &hostile));
        }
    }
    let ticks = processor_ticks() - before;
    assert!(ticks < 2_000, "{ticks} hundredths of a second");
}

/// Processor time of this thread in hundredths of a second, which does not depend on the load of the machine.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9._%+-]{0,20}[a-z]@[a-z0-9]{1,8}\\.(com|org|museum)",
        "[2-6][0-9]{11,17}".prop_map(|digits| with_check_digit(&digits)),
        "[2-6][0-9]{14}".prop_map(|digits| {
            let digits = with_check_digit(&digits);
            format!("{}-{}-{}-{}", &digits[..4], &digits[4..8], &digits[8..12], &digits[12..])
        }),
        "(sk-|ghp_|glpat-|xoxp-)[A-Za-z0-9]{24,60}",
        "(AKIA|ASIA)[A-Z0-9]{16}",
        "eyJ[A-Za-z0-9_-]{4,40}\\.eyJ[A-Za-z0-9_-]{4,40}\\.[A-Za-z0-9_-]{10,40}",
        Just(BLOCK.to_owned()),
    ]
}

fn with_check_digit(digits: &str) -> String {
    let right = |last: &u32| {
        let digits = digits.bytes().map(|digit| u32::from(digit - b'0')).chain([*last]).collect::<Vec<_>>();
        let doubled =
            |(index, digit): (usize, &u32)| if index % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { *digit };
        digits.iter().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
    };
    format!("{digits}{}", (0..10).find(right).unwrap())
}

/// A text with or without a secret. The text around a secret does not extend it.
#[derive(Clone, Debug)]
struct Planted {
    before: String,
    secret: String,
    after: String,
}

impl Planted {
    fn whole(&self) -> String {
        format!("{}{}{}", self.before, self.secret, self.after)
    }

    fn redacted(&self) -> String {
        let replacement = if self.secret.is_empty() { "" } else { REPLACEMENT };
        format!("{}{replacement}{}", self.before, self.after)
    }
}

fn planted() -> impl Strategy<Value = Planted> {
    let around = || prop_oneof![Just(String::new()), "[ \"\\\\/;文\u{1f600}\n]{1,5}"];
    let secret = prop_oneof![2 => Just(String::new()), 1 => secret()];
    (around(), secret, around()).prop_map(|(before, secret, after)| Planted { before, secret, after })
}

/// A document and its expected form.
fn document() -> impl Strategy<Value = (Value, Value)> {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let leaf = prop_oneof![
        4 => planted().prop_map(|planted| (planted.whole().into(), planted.redacted().into())),
        1 => "-?[1-9][0-9]{0,8}(\\.[0-9]{1,20})?(e[0-9])?".prop_map(move |text| (number(&text), number(&text))),
        1 => "[2-6][0-9]{14}".prop_map(move |digits| (number(&with_check_digit(&digits)), REPLACEMENT.into())),
        1 => select(vec![Value::Null, true.into()]).prop_map(|value| (value.clone(), value)),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        let key = prop_oneof![
            4 => planted().prop_map(|planted| (planted.whole(), planted.redacted(), false)),
            1 => select(vec!["password", "API_Key", "Set-Cookie"]).prop_map(|key| (key.to_owned(), key.to_owned(), true)),
        ];
        let members = prop::collection::vec((key, inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(|values| {
                let (whole, redacted): (Vec<_>, Vec<_>) = values.into_iter().unzip();
                (Value::Array(whole), Value::Array(redacted))
            }),
            members.prop_map(|members| {
                let (mut whole, mut redacted) = (Map::new(), Map::new());
                for (index, ((key, safe, is_secret), (value, rest))) in members.into_iter().enumerate() {
                    // Distinct keys stay distinct, so that the two can be compared.
                    let (key, safe) = if is_secret { (key, safe) } else { (format!("{key} /{index}"), format!("{safe} /{index}")) };
                    whole.insert(key, value);
                    redacted.insert(safe, if is_secret { REPLACEMENT.into() } else { rest });
                }
                (Value::Object(whole), Value::Object(redacted))
            }),
        ]
    })
}

/// JSON in which every n-th character of a string is escaped, with white space.
fn spelled(value: &Value, every: usize, out: &mut String) {
    let string = |text: &str, out: &mut String| {
        out.push('"');
        for (index, character) in text.chars().enumerate() {
            if index % every == 0 || character < ' ' || matches!(character, '"' | '\\') {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                out.push(character);
            }
        }
        out.push('"');
    };
    match value {
        Value::String(text) => string(text, out),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index > 0 { " , " } else { "\n" });
                spelled(value, every, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                string(key, out);
                out.push_str(" : ");
                spelled(value, every, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_keep_everything_but_secrets(
        (whole, wanted) in document(), escapes in select(vec![1, 2, 7, 1000]), slice in select(vec![1, 2, 3, 7, 64, 4096]),
    ) {
        let mut text = String::new();
        spelled(&whole, escapes, &mut text);
        let redacted = redact(&Rules::default(), &text, true, &every(slice, &text));
        let found: Value = serde_json::from_str(&redacted).map_err(|error| TestCaseError::fail(format!("{error}: {redacted}")))?;
        prop_assert_eq!(&found, &wanted, "{}", text);
        // White space and the spelling of the rest are preserved, too: a second pass changes nothing.
        prop_assert_eq!(&redact(&Rules::default(), &redacted, true, &[]), &redacted);
        if whole == wanted {
            prop_assert_eq!(redacted, text);
        }
    }

    #[test]
    fn texts_keep_everything_but_secrets(
        pieces in prop::collection::vec(planted(), 0..12), slice in select(vec![1, 2, 3, 7, 64, 4096]),
    ) {
        let join = |part: fn(&Planted) -> String| pieces.iter().map(part).collect::<Vec<_>>().join(" | ");
        let text = join(Planted::whole);
        prop_assert_eq!(redact(&Rules::default(), &text, false, &every(slice, &text)), join(Planted::redacted));
    }

    // Boundaries at which a long text is decided piece by piece.
    #[test]
    fn long_texts_keep_everything_but_secrets(
        before in 0..MATCH_BYTES_MAX, pieces in prop::collection::vec(planted(), 1..6),
        gap in prop_oneof![0..200_usize, 0..MATCH_BYTES_MAX], slice in select(vec![1999, 5000, MATCH_BYTES_MAX + 3]),
    ) {
        let join = |part: fn(&Planted) -> String| {
            let pieces: Vec<String> = pieces.iter().map(|piece| format!("{} | {}", part(piece), "x y ".repeat(gap / 4))).collect();
            format!("{}|{}{}", "y".repeat(before), pieces.concat(), " z".repeat(MATCH_BYTES_MAX))
        };
        let (text, wanted) = (join(Planted::whole), join(Planted::redacted));
        prop_assert!(redact(&Rules::default(), &text, false, &every(slice, &text)) == wanted);
        let (text, wanted) = (serde_json::to_string(&text).unwrap(), serde_json::to_string(&wanted).unwrap());
        prop_assert!(redact(&Rules::default(), &text, true, &every(slice, &text)) == wanted);
    }

    // For any bytes, slices do not matter, and valid JSON stays valid.
    #[test]
    fn slices_make_no_difference(
        text in "([ ,:\\[\\]{}\"\\\\a@.u0e-]|4111111111111111|eyJ|sk-|bob@ex.com|\"token\"|-----BEGIN |PRIVATE KEY-----){0,60}",
        cuts in prop::collection::vec(0_usize..400, 0..20), is_json: bool,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
        cuts.sort_unstable();
        let redacted = redact(&Rules::default(), &text, is_json, &[]);
        prop_assert_eq!(&redact(&Rules::default(), &text, is_json, &cuts), &redacted);
        if is_json && serde_json::from_str::<Value>(&text).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{}", redacted);
        }
    }
}
