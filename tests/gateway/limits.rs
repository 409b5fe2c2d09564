//! What clients take: every client with a profile, and one without, times kinds of results, times the halves of a result.
//! `make limits` prints the table.

use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured};

/// What the documentation or the source of a client says of it, see `reference/clients.md`: its name, the largest text that it
/// shows, and whether it shows the structured content alone. Without a figure of its own, the default threshold, twice.
const CLIENTS: [(&str, Most, bool); 15] = [
    ("@librechat/api-client", Most::Characters(110_000), false),
    ("@n8n/n8n-nodes-langchain.mcpClientTool", Most::Characters(110_000), false),
    ("Code - OSS", Most::Characters(110_000), false),
    ("Visual Studio Code", Most::Bytes(8_192), false),
    ("claude-ai", Most::Bytes(1_000_000), false),
    ("claude-code", Most::Tokens(20_000), true),
    ("codex-mcp-client", Most::Bytes(10_000), true),
    ("cursor-vscode", Most::Characters(110_000), false),
    ("gemini-cli-mcp-client-x", Most::Characters(40_000), false),
    ("github-copilot-developer", Most::Bytes(8_192), false),
    ("goose", Most::Characters(200_000), false),
    ("mcp", Most::Characters(110_000), false),
    ("opencode", Most::Bytes(51_200), false),
    ("qwen-cli-mcp-client-x", Most::Characters(25_000), false),
    ("some agent", Most::Characters(110_000), false),
];

#[derive(Clone, Copy, Debug)]
enum Most {
    Bytes(usize),
    Characters(usize),
    /// Estimated: a fifth less than the client takes.
    Tokens(u64),
}

impl Most {
    fn takes(self, text: &str) -> bool {
        match self {
            Self::Bytes(most) => text.len() <= most,
            Self::Characters(most) => text.chars().count() <= most,
            Self::Tokens(most) => lro_jsonl::tokens(text) <= most,
        }
    }
}

/// Kinds of results, as structured content and as the text of it.
fn kinds() -> Vec<(&'static str, Value, String)> {
    let of = |name, value: Value| {
        let text = value.to_string();
        (name, value, text)
    };
    let of_text = |name, text: String| (name, json!({ "text": text }), text);
    let wide: Vec<Value> = (0..60)
        .map(|row| (0..120).map(|column| (format!("column_{column}"), json!(row * column))).collect())
        .map(Value::Object)
        .collect();
    let words: Vec<Value> =
        (0..900).map(|row| json!({"番号": row, "名前": "東京都千代田区の記録".repeat(4)})).collect();
    let sections: serde_json::Map<String, Value> =
        (0..40).map(|number| (format!("section_{number}"), records(100))).collect();
    let nested = (0..60).fold(json!("x".repeat(90_000)), |inner, level| json!({ format!("level_{level}"): inner }));
    vec![
        of("records", json!({ "items": records(3_000) })),
        of("wide", json!({ "rows": wide })),
        of("cjk", json!({ "items": words })),
        of("sections", Value::Object(sections)),
        of("nested", nested),
        of("one record", json!({ "items": [{"id": 1, "body": "y".repeat(120_000)}] })),
        of("small", json!({ "items": records(20) })),
        of("middle", json!({ "items": records(180) })),
        of_text(
            "log",
            (0..3_000).map(|line| format!("2026-11-02 12:00:{:02} line {line} of a log\n", line % 60)).collect(),
        ),
        of_text("csv", (0..4_000).map(|row| format!("{row},name {row},{}\n", row * 7)).collect()),
        of_text("quotes", "\"\\\n".repeat(30_000)),
        of_text("one line", "z".repeat(130_000)),
    ]
}

/// A result of one form.
fn of_form(form: &str, value: &Value, text: &str) -> Value {
    match form {
        "text" => json!({ "content": [{"type": "text", "text": text}] }),
        "structured" => json!({ "content": [], "structuredContent": value }),
        _ => structured(value),
    }
}

/// The text that a client shows of a result.
fn shown(result: &Value, structured_alone: bool) -> String {
    let structured = &result["structuredContent"];
    let blocks = result["content"].as_array().unwrap().iter();
    let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
    match (structured.is_null(), structured_alone) {
        (true, _) => text,
        (false, true) => structured.to_string(),
        (false, false) => text + &structured.to_string(),
    }
}

/// The first page of what is behind a descriptor.
fn page(gateway: &mut Scripted, found: &Value) -> Value {
    let mut arguments = json!({ "handle": handle(found) });
    if let Some(section) = found["files"].as_object().and_then(|files| files.keys().next()) {
        arguments["section"] = json!(section);
    }
    gateway.call("lro_read", arguments)
}

// In every cell what the client shows is whole, and one call brings the data.
#[test]
fn every_client_gets_what_it_can_show() {
    let forms = ["text", "structured", "both"];
    let kinds = kinds();
    let mut script = Script::new();
    for (kind, value, text) in &kinds {
        for form in forms {
            script = script.call(&format!("{kind}, {form}"), of_form(form, value, text));
        }
    }
    let mut violations = Vec::new();
    for (client, most, structured_alone) in CLIENTS {
        let mut gateway = script.silent(&Setup::default());
        gateway.shake_hands(client);
        println!("{client}: {most:?}");
        for (kind, value, text) in &kinds {
            let mut row = format!("  {kind:<12}");
            for form in forms {
                let result = gateway.call(&format!("{kind}, {form}"), json!({}));
                let seen = shown(&result, structured_alone);
                let (mut calls, mut largest) = ("inline", seen.clone());
                match descriptor(&result) {
                    None if result != of_form(form, value, text) => {
                        violations.push(format!("{client}, {kind}, {form}: changed"));
                    }
                    None => {}
                    Some(found) => {
                        let page = page(&mut gateway, &found);
                        let data = shown(&page, structured_alone);
                        if page["isError"] == true || data.len() < 200 {
                            violations.push(format!("{client}, {kind}, {form}: no data: {:.300}", first_text(&page)));
                        }
                        calls = "1 call";
                        largest = if data.len() > seen.len() { data } else { seen.clone() };
                    }
                }
                if !most.takes(&largest) {
                    violations.push(format!("{client}, {kind}, {form}: {} bytes shown", largest.len()));
                }
                let tokens = lro_jsonl::tokens(&seen);
                row +=
                    &format!(" | {form:<10} {:>6} bytes {tokens:>5} tokens, {calls}, {:>6}", seen.len(), largest.len());
            }
            println!("{row}");
        }
    }
    assert!(violations.is_empty(), "{} of {} cells:\n{}", violations.len(), CLIENTS.len() * 36, violations.join("\n"));
}
