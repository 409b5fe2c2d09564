//! Documents, slides and spreadsheets that a server embeds as bytes: their text and records can be asked about in one call, and
//! their bytes stay what they are.

use lro_tests::workspace;
use serde_json::{Value, json};

use crate::replies::base64;
use crate::scripted::{Script, Scripted, descriptor, handle};

/// Below the size of each result here.
const SMALL: &str = "threshold = 1_000\n";

fn file(name: &str) -> Vec<u8> {
    std::fs::read(workspace().join("guest/document/tests/files").join(name)).unwrap()
}

fn embedded(name: &str, bytes: &[u8]) -> Value {
    let resource =
        json!({"uri": format!("file:///{name}"), "mimeType": "application/octet-stream", "blob": base64(bytes)});
    json!({"type": "resource", "resource": resource})
}

fn result(names: &[&str]) -> Value {
    json!({ "content": names.iter().map(|name| embedded(name, &file(name))).collect::<Value>() })
}

/// The results of a question about an offload.
fn asked(gateway: &mut Scripted, handle: &str, mut question: Value) -> Value {
    question["handle"] = handle.into();
    let answer = gateway.call("lro_extract", question);
    assert_ne!(answer["isError"], true, "{answer}");
    answer["structuredContent"]["results"].clone()
}

// One call each: a search in a PDF, a Word document, slides and an OpenDocument text, a query and SQL over a sheet.
#[test]
fn documents_are_asked_about_in_one_call() {
    let names = ["chromium.pdf", "large.xlsx", "python-docx.docx", "python-pptx.pptx", "odfpy.odt"];
    let script = Script::new().call("read", result(&names));
    let mut gateway = script.with_toml(SMALL);
    let handle = handle(&gateway.descriptor("read"));
    let found = asked(&mut gateway, &handle, json!({"search": "invoice number"}));
    assert_eq!(found[0]["text"], "The invoice number is RX-20431.", "{found}");
    assert_eq!(found[0]["where"], json!(["Page 3"]), "{found}");
    let found = asked(&mut gateway, &handle, json!({"search": "postponed"}));
    assert_eq!(found[0]["text"], "The release is postponed to May.", "{found}");
    let found = asked(&mut gateway, &handle, json!({"search": "loan"}));
    assert_eq!(
        (&found[0]["text"], &found[0]["where"]),
        (&json!("Do not mention the loan."), &json!(["Slide 1", "Notes"]))
    );
    let found = asked(&mut gateway, &handle, json!({"search": "noon"}));
    assert_eq!(found[0]["text"], "Lunch is at noon.", "{found}");
    let query = json!({"section": "Sales", "where": "city == \"Lima\" and amount > 99", "select": ["id", "day"]});
    assert_eq!(asked(&mut gateway, &handle, query), json!([{"id": 398, "day": "2026-02-03"}]));
    let sql = "SELECT city, sum(amount) AS total FROM Sales GROUP BY city ORDER BY total DESC LIMIT 1";
    assert_eq!(asked(&mut gateway, &handle, json!({ "sql": sql })), json!([{"city": "Kyoto", "total": 5025.0}]));
}

// The bytes of a document are in the offload or in the reply, whatever becomes of its text.
#[test]
fn the_bytes_of_documents_stay() {
    for documents in ["text", "keep"] {
        let pdf = file("chromium.pdf");
        let toml = format!("{SMALL}documents = \"{documents}\"\n");
        let mut gateway = Script::new().call("read", result(&["chromium.pdf"])).with_toml(&toml);
        gateway.descriptor("read");
        assert!(gateway.files().contains(&pdf), "{documents}");
        assert_eq!(gateway.holds(b"invoice number"), documents == "text");
    }
}

// What passes does so byte for byte, although the text of a document would make it larger than the threshold.
#[test]
fn a_result_that_passes_is_not_touched() {
    let book = result(&["openpyxl.xlsx"]);
    let threshold = book["content"][0]["resource"]["blob"].as_str().unwrap().len() + 100;
    let mut gateway = Script::new().call("read", &book).with_toml(&format!("threshold = {threshold}\n"));
    assert_eq!(gateway.call("read", json!({})), book);
    assert!(gateway.offloads().is_empty());
}

// A document that cannot be read is kept as bytes, the log says why, and the others of the result are read.
#[test]
fn documents_that_cannot_be_read_are_bytes_and_the_log_says_why() {
    let mut damaged = file("python-docx.docx");
    damaged.truncate(damaged.len() / 2);
    for (name, bytes, reason) in [
        ("encrypted.pdf", file("encrypted.pdf"), "encrypted"),
        ("scanned.pdf", file("scanned.pdf"), "without text"),
        ("half.docx", damaged, "damaged"),
    ] {
        let content = json!({"content": [embedded(name, &bytes), embedded("reportlab.pdf", &file("reportlab.pdf"))]});
        let mut gateway = Script::new().call("read", content).with_toml(SMALL);
        let result = gateway.call("read", json!({}));
        assert!(descriptor(&result).is_some(), "{name}");
        let told = gateway.told("a document has no text to ask about");
        assert!(told.contains(name) && told.contains(reason), "{told}");
        assert!(gateway.files().contains(&bytes), "{name}");
        assert!(gateway.holds(b"stamped by a form"), "{name}");
    }
}

// A limit of the reader costs the text of a document alone.
#[test]
fn a_document_that_needs_too_much_is_bytes() {
    let toml = format!("{SMALL}documents-memory-bytes = 1_500_000\n");
    let mut gateway = Script::new().call("read", result(&["chromium.pdf"])).with_toml(&toml);
    gateway.descriptor("read");
    let told = gateway.told("a document has no text to ask about");
    assert!(told.contains("(limit documents-memory-bytes)"), "{told}");
    assert!(gateway.files().contains(&file("chromium.pdf")) && !gateway.holds(b"invoice number"));
}
