//! What differs by client and by session.

use serde_json::{Value, json};

use crate::http::Exchange;
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured, text};

fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

/// A gateway with this configuration and a client of this name.
fn client(script: &Script, toml: &str, name: &str) -> Scripted {
    let mut gateway = script.silent(&Setup { toml, ..Setup::default() });
    gateway.shake_hands(name);
    gateway
}

// Only what this client has is named: the disk and a shell, or neither.
#[test]
fn guidance_names_what_the_client_has() {
    let toml = "level = \"full\"\n[clients.\"far*\"]\nshares-disk = false\n[clients.near]\nshares-disk = true\n";
    let script = Script::new().call("large", large()).call("text", text(&"line\n".repeat(20_000)));
    for tool in ["large", "text"] {
        for (name, shell) in [("anything", true), ("near", true), ("far away", false)] {
            let mut gateway = client(&script, toml, name);
            let result = gateway.call(tool, json!({}));
            let shown = result.to_string();
            let found = descriptor(&result).unwrap();
            let guidance = found["guidance"].as_str().unwrap();
            assert!(guidance.contains("lro_read"), "{guidance}");
            assert!(guidance.contains("such as lro_extract {"), "{guidance}");
            let directory = gateway.directory();
            let commands = ["jq -", "tail -n", "sed -n", "head -", directory.to_str().unwrap()];
            let named: Vec<&str> = commands.into_iter().filter(|command| shown.contains(command)).collect();
            assert_eq!(!named.is_empty(), shell, "{tool}, {name}: {named:?} in {shown}");
            // Without a shell the own tools are enough.
            let handle = handle(&found);
            assert_eq!(gateway.call("lro_read", json!({"handle": handle, "limit": 1}))["isError"], Value::Null);
            assert_eq!(found.get(if shell { "recipes" } else { "jq_recipes" }), None, "{name}");
            let recipes = found.get("recipes").or(found.get("jq_recipes"));
            // A client with the tool gets no commands for texts: then nothing speaks of recipes.
            assert!(recipes.is_some() || tool == "text", "{name}: {found}");
            assert_eq!(guidance.contains("a recipe"), shell && recipes.is_some(), "{tool}, {name}: {guidance}");
            assert_ne!(recipes, Some(&json!({})), "{tool}, {name}");
            if let Some(recipes) = recipes.and_then(Value::as_object).filter(|_| tool == "large") {
                for recipe in recipes.keys() {
                    let answer = gateway.call("lro_extract", json!({"handle": handle, "recipe": recipe}));
                    assert_eq!(answer["isError"], Value::Null, "{name}, {recipe}: {answer}");
                }
            }
        }
    }
}

// Links only for clients that take them; what they lead to can be read.
#[test]
fn links_for_clients_that_take_them() {
    let toml = "[clients.linking]\nresource-links = true\n";
    let script = Script::new().call("large", large());
    for (name, wanted) in [("linking", 1), ("MCP inspector", 1), ("codex-mcp", 0), ("anything", 0)] {
        let mut gateway = client(&script, toml, name);
        let result = gateway.call("large", json!({}));
        let blocks = result["content"].as_array().unwrap();
        let links: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "resource_link").collect();
        assert_eq!(links.len(), wanted, "{name}: {result}");
        for link in links {
            let read = gateway.result("resources/read", json!({"uri": link["uri"]}));
            assert_eq!(read["contents"][0]["text"].as_str().unwrap().lines().count(), 2_000, "{link}");
        }
    }
}

// Thresholds by client and by tool; the tool's wins.
#[test]
fn thresholds_by_client() {
    let toml = "[clients.\"small*\"]\nthreshold = 10000\n[clients.\"small/1.0.0\"]\nthreshold = 2000\nunit = \"bytes\"\n[tools.own]\nthreshold = 30000\n";
    let script = [1_000, 5_000, 20_000]
        .iter()
        .fold(Script::new(), |script, size| script.call(&size.to_string(), text(&"x".repeat(*size))));
    let script = script.call("own", text(&"x".repeat(20_000)));
    for (name, offloaded) in [("small", vec!["5000", "20000"]), ("smaller", vec!["20000"]), ("other", vec![])] {
        let mut gateway = client(&script, toml, name);
        let all = ["1000", "5000", "20000", "own"];
        let found: Vec<&str> =
            all.into_iter().filter(|tool| descriptor(&gateway.call(tool, json!({}))).is_some()).collect();
        assert_eq!(found, offloaded, "{name}");
    }
}

// The limit of a client holds for whole messages: what passes by the threshold is offloaded all the same.
#[test]
fn the_limit_of_a_client_holds() {
    let toml = "threshold = 1000000\n[clients.tight]\nresult-limit = 20000\n[tools.never]\nmode = \"never\"\n";
    let script = Script::new()
        .call("over", text(&"x".repeat(20_000)))
        .call("escapes", text(&"\"".repeat(12_000)))
        .call("under", text(&"x".repeat(19_000)))
        .call("member", json!({"content": [], "a": "x".repeat(30_000)}))
        .call("never", text(&"x".repeat(30_000)));
    let mut gateway = client(&script, toml, "tight");
    for (tool, offloaded) in [("over", true), ("escapes", true), ("under", false), ("member", true)] {
        assert_eq!(descriptor(&gateway.call(tool, json!({}))).is_some(), offloaded, "{tool}");
    }
    let result = gateway.call("never", json!({}));
    assert!(result["isError"] == true && first_text(&result).contains("never"), "{result:.300}");
}

// A result that is decided upon twice, as the client takes less than the threshold, is one result.
#[test]
fn a_result_is_counted_once() {
    let toml = "threshold = 1000000\n[gateway]\nmetrics-listen = \"127.0.0.1:0\"\n[clients.tight]\nresult-limit = 20000\n\
        [tools.never]\nmode = \"never\"\n";
    let script = Script::new()
        .call("over", text(&"x".repeat(30_000)))
        .call("never", text(&"x".repeat(30_000)))
        .call("under", text("x"));
    let mut gateway = script.silent(&Setup { toml, log: "info", ..Setup::default() });
    let url = gateway.told("metrics on ");
    gateway.shake_hands("tight");
    for tool in ["over", "never", "under"] {
        gateway.answer(tool);
    }
    let metrics = Exchange::open(&url, "GET", &[], b"").finish().text();
    let counts = |tool: &str| -> Vec<&str> {
        let of_tool = |line: &&str| line.starts_with("lro_tool_results_total") && line.contains(&format!("\"{tool}\""));
        metrics.lines().filter(of_tool).collect()
    };
    for (tool, verdict) in [("over", "offload"), ("never", "reject"), ("under", "pass")] {
        let [only] = counts(tool)[..] else { panic!("{tool}: {metrics}") };
        assert!(only.contains(&format!("verdict=\"{verdict}\"")) && only.ends_with(" 1"), "{only}");
    }
}

// Lines of all text blocks together, with the empty one between two; what a client wants whole passes.
#[test]
fn a_client_that_cuts_lines_gets_no_more() {
    let toml = "[clients.lines]\ntext-lines = 100\n[clients.whole]\ntext-lines = 100\ninline = true\n";
    let lines = |count: usize| "word\n".repeat(count - 1) + "word";
    let two = json!({"content": [{"type": "text", "text": lines(50)}, {"type": "text", "text": lines(50)}]});
    let script = Script::new()
        .call("99", text(&lines(99)))
        .call("100", text(&lines(100)))
        .call("101", text(&lines(101)))
        .call("two", two)
        .call("one line", text(&"word ".repeat(500)))
        .call("structured", json!({"content": [], "structuredContent": {"text": lines(300)}}));
    let mut gateway = client(&script, toml, "lines");
    for (tool, offloaded) in
        [("99", false), ("100", false), ("101", true), ("two", true), ("one line", false), ("structured", false)]
    {
        assert_eq!(descriptor(&gateway.call(tool, json!({}))).is_some(), offloaded, "{tool}");
    }
    let handle = handle(&gateway.descriptor("101"));
    let page = first_text(&gateway.call("lro_read", json!({"handle": handle}))).to_owned();
    assert!((10..=100).contains(&page.lines().count()), "{page}");
    assert!(descriptor(&client(&script, toml, "whole").call("101", json!({}))).is_none());
}

// What a client shows its model bounds results by their text: images do not count, nor does a copy in the half that is not
// seen, and who asks for all of a result gets it.
#[test]
fn what_a_client_shows_is_text() {
    let toml = "threshold = 1000000\n[clients.tight]\ntext-limit = 20000\n[clients.half]\ntext-limit = 20000\nsees = \"structured\"\n\
        [clients.all]\ntext-limit = 20000\ninline = true\n[tools.never]\nmode = \"never\"\n";
    let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(60_000)});
    let both = |bytes: usize| structured(&json!({ "a": "x".repeat(bytes) }));
    let script = Script::new()
        .call("text", text(&"x".repeat(20_000)))
        .call("image", json!({"content": [{"type": "text", "text": "a picture"}, image]}))
        .call("both", both(15_000))
        .call("long", both(25_000))
        .call(
            "unseen",
            json!({"content": [{"type": "text", "text": "x".repeat(40_000)}], "structuredContent": {"a": 1}}),
        )
        .call(
            "only text",
            json!({"content": [{"type": "text", "text": "x".repeat(40_000)}], "structuredContent": null}),
        )
        .call("never", text(&"x".repeat(30_000)));
    let all = ["text", "image", "both", "long", "unseen", "only text", "never"];
    for (name, offloaded) in [
        ("tight", vec!["text", "both", "long", "unseen", "only text"]),
        ("half", vec!["text", "long", "unseen", "only text"]),
        ("all", vec![]),
        ("other", vec![]),
    ] {
        let mut gateway = client(&script, toml, name);
        let is_offloaded = |tool: &&str| descriptor(&gateway.call(tool, json!({}))).is_some();
        assert_eq!(all.into_iter().filter(is_offloaded).collect::<Vec<_>>(), offloaded, "{name}");
    }
}

// A descriptor that has no room gives way to a handle; nothing is lost.
#[test]
fn a_descriptor_without_room_becomes_a_handle() {
    let toml = "level = \"full\"\n[clients.tiny]\ntext-limit = 1500\n";
    let script = Script::new().call("large", structured(&json!({"items": records(2_000), "note": "kept ".repeat(90)})));
    let mut gateway = client(&script, &format!("inline-keys = [\"note\"]\n{toml}"), "tiny");
    let result = gateway.call("large", json!({}));
    let found = descriptor(&result).unwrap_or_else(|| panic!("{result}"));
    assert!(found["summary"]["items"]["count"] == 2_000 && found.get("schema").is_none(), "{found}");
    assert!(result.to_string().len() <= 1_500 && result["isError"].is_null(), "{result}");
    // A page that says how to go on, and an answer, have room too.
    let page = gateway.call("lro_read", json!({"handle": handle(&found), "section": "items"}));
    let shown = page["structuredContent"]["records"].as_array().unwrap_or_else(|| panic!("{page}")).len();
    assert!(shown > 0 && page.to_string().len() <= 1_500, "{page}");
    let next = page["structuredContent"]["next"].clone();
    let more = gateway.call("lro_read", json!({"handle": handle(&found), "section": "items", "cursor": next}));
    assert_eq!(more["structuredContent"]["first"], shown, "{more}");
    let all = gateway.call("lro_read", json!({"handle": handle(&found), "section": "items", "bytes": 100_000}));
    assert!(all["structuredContent"]["next"].is_string() && all.to_string().len() <= 1_500, "{all}");
    let answer =
        gateway.call("lro_extract", json!({"handle": handle(&found), "section": "items", "where": "even == true"}));
    assert!(answer["isError"].is_null() && answer.to_string().len() <= 1_500, "{answer}");
    assert_eq!(
        (&answer["structuredContent"]["total"], &answer["structuredContent"]["advice"].is_string()),
        (&json!(1_000), &true)
    );
}

// A client that wants results inline gets them, up to its limit.
#[test]
fn inline_up_to_the_limit() {
    let toml = "[clients.code]\ninline = true\nresult-limit = 200000\n[clients.limited]\nresult-limit = 200000\n";
    let huge = structured(&json!({ "items": records(9_000) }));
    let script = Script::new().call("large", large()).call("huge", huge);
    let mut gateway = client(&script, toml, "code");
    let result = gateway.call("large", json!({}));
    assert!(descriptor(&result).is_some(), "both halves have {} bytes", result.to_string().len());
    let toml = toml.replace("200000", "400000");
    let mut gateway = client(&script, &toml, "code");
    assert_eq!(gateway.call("large", json!({})), large());
    assert!(descriptor(&gateway.call("huge", json!({}))).is_some());
    // The same for one call, by its metadata.
    let mut gateway = client(&script, &toml, "limited");
    for (mode, tool, offloaded) in [("inline", "large", false), ("inline", "huge", true), ("other", "large", true)] {
        let params = json!({"name": tool, "arguments": {}, "_meta": {"io.github.lro-filter/mode": mode}});
        assert_eq!(descriptor(&gateway.result("tools/call", params)).is_some(), offloaded, "{mode} {tool}");
    }
    let metadata = r#""_meta":{"io.github.lro-filter/mode":"inline"}"#;
    assert!(gateway.seen().iter().any(|line| line.contains(metadata)), "what the client says reaches the server");
}

// A ceiling holds for those who want everything inline, too.
#[test]
fn inline_up_to_the_ceiling() {
    let mut gateway = Script::new().call("huge", large()).with_flags(&["--preset", "25k"]);
    let params = json!({"name": "huge", "_meta": {"io.github.lro-filter/mode": "inline"}});
    assert!(descriptor(&gateway.result("tools/call", params)).is_some());
}

/// The size that each tool declares to a client of this name.
fn declared(script: &Script, toml: &str, name: &str) -> Vec<(String, Value)> {
    let tools = client(script, toml, name).tools();
    let size = |tool: &Value| tool["_meta"]["anthropic/maxResultSizeChars"].clone();
    tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), size(tool))).collect()
}

// To Claude Code tools declare as many characters as go through, so that it writes none of them to a file again.
#[test]
fn tools_declare_the_size_of_their_results() {
    let tool = |name: &str, more: &str| format!(r#"{{"name":"{name}","inputSchema":{{ "type":"object" }}{more}}}"#);
    let metadata = |size: &str| format!(r#","_meta":{{"a":1.0,"anthropic/maxResultSizeChars":{size}}}"#);
    let tools = [
        tool("plain", ""),
        tool("other", r#","_meta":{"a":1.0},"outputSchema":{"type":"object"}"#),
        tool("empty", r#","_meta":{}"#),
        tool("less", &metadata("10000")),
        tool("more", &metadata("1.5e5")),
        tool("wrong", &metadata("\"many\"")),
        tool("never", &metadata("7")),
        tool("tight", ""),
    ];
    let list = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let script = Script::new().result("tools/list", list.as_str());
    let toml = "[tools.never]\nmode = \"never\"\n[tools.tight]\nthreshold = 1000\n";
    let sizes = |toml: &str, name: &str| -> Vec<Value> {
        declared(&script, toml, name).into_iter().map(|(_, size)| size).collect()
    };
    let wanted = |size: u32| json!([size, size, size, size, 150_000.0, size, 7, 90_000, 500_000, 500_000]);
    // The threshold of 50,000 characters and the descriptor beside what stays.
    let mut expected = wanted(90_000);
    expected[7] = json!(41_000);
    assert_eq!(Value::from(sizes(toml, "claude-code")), expected);
    // In tokens there are up to four characters to one; the client shows 25,000 tokens, and 500,000 characters at most if it is
    // set to show more.
    assert_eq!(sizes(&format!("preset = \"25k\"\n{toml}"), "claude-code")[0], 140_000);
    assert_eq!(sizes(&format!("threshold = 4000000\n{toml}"), "claude-code")[0], 140_000);
    let more = format!("threshold = 4000000\n{toml}[clients.\"claude-code*\"]\ntext-limit = 1000000\n");
    assert_eq!(sizes(&more, "claude-code")[0], 500_000);
    let less = format!("{toml}[clients.\"claude-code*\"]\ndeclared-size = 60000\n");
    assert_eq!(sizes(&less, "claude-code")[0], 60_000);
    // Others are told what the server says, byte for byte.
    let mut other = client(&script, "schema = \"block\"\n", "anything");
    let answer = other.ask("tools/list", json!({}));
    assert!(answer.contains(&tools.join(",")), "{answer}");
    // What else there is of a tool stays as it was.
    let mut gateway = client(&script, &format!("schema = \"block\"\n{toml}"), "claude-code");
    let answer = gateway.ask("tools/list", json!({}));
    for part in [
        r#"{"name":"plain","inputSchema":{ "type":"object" },"_meta":{"anthropic/maxResultSizeChars":90000}}"#,
        r#""_meta":{"a":1.0,"anthropic/maxResultSizeChars":90000},"outputSchema":{"type":"object"}}"#,
        r#""_meta":{"a":1.0,"anthropic/maxResultSizeChars":1.5e5}}"#,
        r#"{"name":"never","inputSchema":{ "type":"object" },"_meta":{"a":1.0,"anthropic/maxResultSizeChars":7}}"#,
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
}

// Nothing that goes through is longer than declared: results that pass, descriptors with what stays, pages, answers.
#[test]
fn nothing_is_longer_than_declared() {
    let image = json!({"type": "image", "data": "QUJD".repeat(12_000), "mimeType": "image/png"});
    let mut mixed = large();
    mixed["content"].as_array_mut().unwrap().push(image);
    let lines = format!("{}\n", "\"line\" ".repeat(60)).repeat(2_000);
    let script = Script::new()
        .tool("passes", "", text(&"x".repeat(50_000)))
        .tool("structured", "", structured(&json!({"long": "y".repeat(49_900)})))
        .tool("mixed", "", mixed)
        .tool("lines", "", text(&lines));
    let toml = "level = \"full\"\n";
    let sizes = declared(&script, toml, "claude-code");
    let mut gateway = client(&script, toml, "claude-code");
    // The longest half, as its reader counts.
    let longest = |result: &Value| {
        let content = result["content"].as_array().unwrap().iter();
        let shown =
            |block: &Value| block["text"].as_str().or(block["data"].as_str()).unwrap_or_default().chars().count();
        let text: usize = content.map(shown).sum();
        text.max(result["structuredContent"].to_string().chars().count())
    };
    let limit = |tool: &str| sizes.iter().find(|(name, _)| name == tool).unwrap().1.as_u64().unwrap() as usize;
    for tool in ["passes", "structured", "mixed", "lines"] {
        let result = gateway.call(tool, json!({}));
        assert!(longest(&result) <= limit(tool), "{tool}: {} of {}", longest(&result), limit(tool));
    }
    for tool in ["mixed", "lines"] {
        let handle = handle(&gateway.descriptor(tool));
        let section = if tool == "mixed" { "items" } else { "text" };
        let page = json!({"handle": handle, "section": section, "limit": 1000, "bytes": 4_000_000});
        let page = gateway.call("lro_read", page);
        assert!(page["isError"].is_null() && longest(&page) <= limit("lro_read"), "{tool}: {}", longest(&page));
    }
    let handle = handle(&gateway.descriptor("mixed"));
    let answer = gateway.call("lro_extract", json!({"handle": handle, "section": "items", "limit": 100_000}));
    assert!(answer["isError"].is_null() && longest(&answer) <= limit("lro_extract"), "{answer:.300}");
}

// A session has a budget; beyond it only small results pass.
#[test]
fn a_session_has_a_budget() {
    // About 3,000 tokens each, and about 30.
    let script = Script::new().call("middle", text(&"x".repeat(10_000))).call("small", text(&"x".repeat(100)));
    let flags = ["--session-budget", "7000", "--session-floor", "100"];
    let mut gateway = script.with_flags(&flags);
    let offloaded = |gateway: &mut Scripted, tool: &str| descriptor(&gateway.call(tool, json!({}))).is_some();
    assert_eq!([0; 4].map(|_| offloaded(&mut gateway, "middle")), [false, false, true, true]);
    assert!(!offloaded(&mut gateway, "small"), "the floor");
    let mut other = script.with_flags(&flags);
    assert!(!offloaded(&mut other, "middle"), "another session has its own");
    let mut low = script.with_flags(&["--session-budget", "7000", "--session-floor", "4000"]);
    assert_eq!([0; 4].map(|_| offloaded(&mut low, "middle")), [false; 4], "a floor above the results");
}

// Of two halves, the budget counts the one that the model of the client sees.
#[test]
fn the_budget_counts_what_the_model_sees() {
    // About 300 tokens of text beside 3,000 tokens of structured content.
    let halves = json!({
        "content": [{"type": "text", "text": "x".repeat(1_000)}],
        "structuredContent": {"long": "y".repeat(10_000)},
    });
    let script = Script::new().call("halves", halves);
    let toml = "[gateway]\nsession-budget = 7000\nsession-floor = 100\n[clients.reader]\nsees = \"text\"\n[clients.parser]\nsees = \"structured\"\n";
    for (name, passed) in [("reader", 6), ("parser", 2), ("anything", 2)] {
        let mut gateway = client(&script, toml, name);
        let passes = (0..6).take_while(|_| descriptor(&gateway.call("halves", json!({}))).is_none());
        assert_eq!(passes.count(), passed, "{name}");
    }
}

// A model that sees the structured half alone gets the descriptor there, or as an error, but no shortened data.
#[test]
fn a_model_that_sees_the_structured_half_gets_the_descriptor() {
    let script = Script::new().call("large", large());
    let toml = "schema = \"shape\"\n[clients.parser]\nsees = \"structured\"\n";
    let shown = client(&script, toml, "parser").call("large", json!({}));
    assert!(shown["isError"] == true && descriptor(&shown).is_some(), "{shown:.300}");
}

// A client that tells its model gets its share, with each request or at the handshake; one that does not, that of `*`.
#[test]
fn the_model_that_a_client_tells_has_a_share() {
    let toml = "[models.small]\nwindow = 20000\n[models.large]\nwindow = 900000\n[models.\"counted*\"]\nwindow = 40000\nresult-share = 50\n\
        session-share = 75\n[tools.again]\nreuse-seconds = 600\n";
    let twelve = || text(&"x".repeat(12_000));
    let script = Script::new().call("text", twelve()).call("again", text(&"x".repeat(60_000)));
    let mut gateway = client(&script, toml, "anything");
    let told = |gateway: &mut Scripted, tool: &str, model: Value| {
        let meta = json!({"io.github.lro-filter/model": model});
        gateway.result("tools/call", json!({"name": tool, "arguments": {}, "_meta": meta}))
    };
    // 3,000 tokens are more than a tenth of 20,000, and less than one of 900,000.
    for (model, offloaded) in [("small", true), ("large", false), ("unknown", false)] {
        assert_eq!(descriptor(&told(&mut gateway, "text", model.into())).is_some(), offloaded, "{model}");
    }
    assert!(descriptor(&gateway.call("text", json!({}))).is_none());
    assert!(
        gateway.seen().iter().any(|line| line.contains("lro-filter/model")),
        "what the client says reaches the server"
    );
    // A page has room in the share, too, and reuse goes by the share.
    let found = descriptor(&told(&mut gateway, "again", "small".into())).unwrap();
    let again = descriptor(&told(&mut gateway, "again", "small".into())).unwrap();
    assert_eq!(handle(&found), handle(&again));
    let meta = json!({"io.github.lro-filter/model": "small"});
    let page = gateway
        .result("tools/call", json!({"name": "lro_read", "arguments": {"handle": handle(&found)}, "_meta": meta}));
    assert!(page["isError"].is_null() && lro_jsonl::tokens(&page.to_string()) <= 2_000, "{page}");
    // 30,000 tokens of a session: three results have come before.
    let fitting = 30_000 / lro_jsonl::tokens(&twelve().to_string());
    let passed = (0..12).filter(|_| descriptor(&told(&mut gateway, "text", "counted-1".into())).is_none()).count();
    assert_eq!(passed as u64, fitting - 3);
    // At the handshake, and for who tells nothing.
    let mut gateway = script.silent(&Setup { toml, ..Setup::default() });
    let info = json!({"name": "agent", "version": "1"});
    let meta = json!({"io.github.lro-filter/model": "small"});
    gateway.result(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info, "_meta": meta}),
    );
    assert!(descriptor(&gateway.call("text", json!({}))).is_some());
    assert!(descriptor(&told(&mut gateway, "text", "large".into())).is_none());
    let mut gateway = client(&script, "[models.\"*\"]\nwindow = 20000\n", "anything");
    assert!(descriptor(&gateway.call("text", json!({}))).is_some());
}
