//! What clients take: every client with a profile, and one without, times kinds of results, times the halves of a result.
//! `make limits` prints the table.

use std::env;

use serde_json::{Value, json};

use crate::ceiling::{counted, counted_by};
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured};

/// What the documentation or the source of a client says of it, see `reference/clients.md`: its name, the largest text that it
/// shows, and whether it shows the structured content alone. Without a figure of its own, the default threshold, twice.
const CLIENTS: [(&str, Most, bool); 15] = [
    ("@librechat/api-client", Most::Characters(110_000), false),
    ("@n8n/n8n-nodes-langchain.mcpClientTool", Most::Characters(110_000), false),
    ("Code - OSS", Most::Characters(110_000), false),
    ("Visual Studio Code", Most::Bytes(8_192), false),
    ("claude-ai", Most::Bytes(1_000_000), false),
    ("claude-code", Most::Tokens(25_000), true),
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

/// The variable with which tokens are counted for all clients: for the table, as that takes a minute.
const COUNTED: &str = "LRO_COUNT_TOKENS";

#[derive(Clone, Copy, Debug)]
enum Most {
    Bytes(usize),
    Characters(usize),
    Tokens(u64),
}

/// The most lines of text that a client shows.
fn lines_max(client: &str) -> usize {
    match client {
        "opencode" => 2_000,
        "qwen-cli-mcp-client-x" => 1_000,
        _ => usize::MAX,
    }
}

impl Most {
    fn takes(self, text: &str, tokens: Option<u64>) -> bool {
        match self {
            Self::Bytes(most) => text.len() <= most,
            Self::Characters(most) => text.chars().count() <= most,
            Self::Tokens(most) => tokens.unwrap() <= most,
        }
    }

    /// The tokens of each text, if they are the limit, or for the table.
    fn tokens(self, texts: &[String]) -> Vec<Option<u64>> {
        let tokens = match self {
            Self::Tokens(_) => counted(texts),
            // The larger count of two takes minutes for all of them.
            _ if env::var_os(COUNTED).is_some() => counted_by(&["o200k_base"], texts),
            _ => return vec![None; texts.len()],
        };
        tokens.into_iter().map(Some).collect()
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
        of_text("lines", (0..2_400).map(|line| format!("line {line}\n")).collect()),
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

/// What a client gets of one result, and how it comes to the data.
struct Cell {
    place: String,
    form: &'static str,
    /// What it shows, and the first page of what it does not.
    texts: Vec<String>,
}

// In every cell what the client shows is whole, and one call brings the data. Tokens are those of `o200k_base`, or, where they are
// the limit, of Claude 2 if those are more.
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
        let mut cells = Vec::new();
        for (kind, value, text) in &kinds {
            for form in forms {
                let place = format!("{client}, {kind}, {form}");
                let result = gateway.call(&format!("{kind}, {form}"), json!({}));
                let mut texts = vec![shown(&result, structured_alone)];
                match descriptor(&result) {
                    None if result != of_form(form, value, text) => violations.push(format!("{place}: changed")),
                    None => {}
                    Some(found) => {
                        let page = page(&mut gateway, &found);
                        let data = shown(&page, structured_alone);
                        if page["isError"] == true || data.len() < 200 {
                            violations.push(format!("{place}: no data: {:.300}", first_text(&page)));
                        }
                        texts.push(data);
                    }
                }
                cells.push(Cell { place, form, texts });
            }
        }
        let all: Vec<String> = cells.iter().flat_map(|cell| cell.texts.clone()).collect();
        let mut tokens = most.tokens(&all).into_iter();
        println!("{client}: {most:?}");
        for row in cells.chunks(forms.len()) {
            let mut line = format!("  {:<12}", row[0].place.split(", ").nth(1).unwrap());
            for Cell { place, form, texts } in row {
                line += &format!(" | {form}");
                for (text, what) in texts.iter().zip(["", " then"]) {
                    let tokens = tokens.next().unwrap();
                    line += &format!("{what} {:>6} bytes", text.len());
                    line += &tokens.map(|tokens| format!(" {tokens:>5} tokens")).unwrap_or_default();
                    if !most.takes(text, tokens) || text.lines().count() > lines_max(client) {
                        violations.push(format!("{place}: {} bytes, {tokens:?} tokens", text.len()));
                    }
                }
                line += if texts.len() == 1 { ", inline" } else { ", 1 call" };
            }
            println!("{line}");
        }
    }
    assert!(
        violations.is_empty(),
        "{} of {} cells:\n{}",
        violations.len(),
        CLIENTS.len() * kinds.len() * 3,
        violations.join("\n")
    );
}
