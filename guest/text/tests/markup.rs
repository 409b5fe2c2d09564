//! Elements of XML: what a naive printer writes is read back, wherever the text is cut.

mod support;

use lro_text::{ELEMENT_BYTES_MAX, Fault, Form, TOKEN_BYTES_MAX};
use proptest::prelude::*;
use serde_json::{Map, Value};
use support::{dice, form, lines, read, recognized, slices};

/// Printed XML of an element, and its value.
#[derive(Clone, Debug)]
struct Printed {
    xml: String,
    value: Value,
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&#34;").replace('é', "&#xe9;")
}

fn text() -> impl Strategy<Value = String> {
    proptest::sample::select(
        &["", "x", "a < b & c", "\"q\" 'p'", "naïve é 東京", " spaces ", "]]", "two\nlines", "1.50"][..],
    )
    .prop_map(String::from)
}

fn attributes() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => (text(), text()).prop_map(|(first, second)| vec![("id", first), ("x:y", second)]),
    ]
}

/// The content of an element in XML, and its value without attributes.
fn content() -> impl Strategy<Value = Printed> {
    let leaf = prop_oneof![
        4 => text().prop_map(|text| Printed { xml: escaped(&text), value: text.into() }),
        1 => text().prop_map(|text| Printed { xml: format!("<!-- <no> --><![CDATA[{text}]]>"), value: text.into() }),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let child = (proptest::sample::select(&["a", "b", "c-d"][..]), attributes(), inner);
        (proptest::collection::vec(child, 1..4), proptest::sample::select(&["", "\n  "][..])).prop_map(
            |(children, white)| {
                let mut groups: Vec<(&str, Vec<Value>)> = Vec::new();
                let mut xml = String::new();
                for (name, attributes, content) in children {
                    let printed = element(name, &attributes, content);
                    xml.push_str(white);
                    xml.push_str(&printed.xml);
                    match groups.iter_mut().find(|(other, _)| *other == name) {
                        Some((_, values)) => values.push(printed.value),
                        None => groups.push((name, vec![printed.value])),
                    }
                }
                let one_or_all =
                    |mut values: Vec<Value>| if values.len() == 1 { values.remove(0) } else { values.into() };
                let members: Map<_, _> =
                    groups.into_iter().map(|(name, values)| (name.into(), one_or_all(values))).collect();
                Printed { xml: xml + white, value: members.into() }
            },
        )
    })
}

fn element(name: &str, attributes: &[(&str, String)], content: Printed) -> Printed {
    let printed: String = attributes.iter().map(|(name, value)| format!(" {name} = \"{}\"", escaped(value))).collect();
    let xml = match content.xml.as_str() {
        "" => format!("<{name}{printed}/>"),
        inside => format!("<{name}{printed}>{inside}</{name} >"),
    };
    if attributes.is_empty() {
        return Printed { xml, value: content.value };
    }
    let mut members: Map<_, _> =
        attributes.iter().map(|(name, value)| (format!("@{name}"), Value::from(value.as_str()))).collect();
    match content.value {
        Value::Object(children) => members.extend(children),
        Value::String(text) if text.trim().is_empty() => {}
        text => drop(members.insert("#text".into(), text)),
    }
    Printed { xml, value: members.into() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn elements(records in proptest::collection::vec((attributes(), content()), 2..6), wrapped in any::<bool>(), cuts in dice()) {
        let records: Vec<_> = records.into_iter().map(|(attributes, content)| element("item", &attributes, content)).collect();
        let items: String = records.iter().map(|record| format!("  {}\n", record.xml)).collect();
        let (path, text) = match wrapped {
            true => ("rss/channel/item", format!("<rss v='2'><channel>\n<title>T</title>{items}</channel></rss>\n")),
            false => ("r/item", format!("<?xml version=\"1.0\"?>\n<!DOCTYPE r>\n<r>{items}</r>")),
        };
        let (found, _) = read(&Form::XmlElements { path: path.into() }, slices(&text, &cuts)).expect("XML");
        let found: Vec<Value> = found.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        prop_assert_eq!(found, records.into_iter().map(|record| record.value).collect::<Vec<_>>());
    }

    /// Any characters at all: what is read does not depend on the slices.
    #[test]
    fn any_text(text in "(<a>|<b|</b>|</a>|<b>|<b/>|[<>&;!'\"= x/\\[-]){0,24}", cuts in dice()) {
        let form = Form::XmlElements { path: "a/b".into() };
        let text = format!("<a>{text}");
        prop_assert_eq!(read(&form, slices(&text, &cuts)), read(&form, [text.as_str()]));
    }
}

#[test]
fn repeated_elements_are_recognized() {
    let book = |id: u32| format!("  <book id=\"{id}\"><title>Book {id}</title></book>\n");
    let books = format!("<catalog>\n{}</catalog>\n", (1..9).map(book).collect::<String>());
    assert_eq!(form(&books), Some(Form::XmlElements { path: "catalog/book".into() }));
    assert_eq!(recognized(&books)[1], r#"{"@id":"2","title":"Book 2"}"#);
    for no in [
        "<html><body><p>a</p><p>b</p></body></html>",
        "<!DOCTYPE html><p>a</p><p>b</p>",
        "<a><b>1</b></a>",
        "<a><b>one</b> and <b>two</b>, which is prose with marks in it and much more text than marks</a>",
        "<a> b < c and <d>",
        "<!DOCTYPE a [<!ENTITY x \"y\">]><a><b>&x;</b><b>&x;</b></a>",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
}

#[test]
fn faults_are_named() {
    let fault = |text: &str| lines(&Form::XmlElements { path: "a/b".into() }, text);
    assert_eq!(fault("<a><b>1</c></a>"), Err(Fault::Markup));
    assert_eq!(fault("<a><b>x<c/></b></a>"), Err(Fault::Mixed));
    assert_eq!(fault("<a><b>&nbsp;</b></a>"), Err(Fault::Markup));
    assert_eq!(fault("<a><b x='1' x='2'/></a>"), Err(Fault::Markup));
    assert_eq!(fault("<!DOCTYPE a [<!ENTITY x 'y'>]><a/>"), Err(Fault::Markup));
    assert_eq!(fault("<a><b>1</b>"), Err(Fault::End));
    assert_eq!(fault("<a/><a/>"), Err(Fault::Second));
    assert_eq!(fault(&format!("<a><!--{}--></a>", "x".repeat(2 * TOKEN_BYTES_MAX))), Err(Fault::Token));
    assert_eq!(fault(&format!("<a><b>{}</b></a>", "x".repeat(ELEMENT_BYTES_MAX + 1))), Err(Fault::Element));
    assert_eq!(fault(&"<a>".repeat(1000)), Err(Fault::Depth));
}
