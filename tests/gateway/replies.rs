//! What becomes of the results of calls, whatever their shape.

use std::process::Command;

use lro_host::mcp::wire_size;
use lro_host::settings::SizeUnit;
use lro_tests::workspace;
use serde_json::{Value, json};

use crate::scripted::{Script, Setup, descriptor, first_text, handle, records, result_bytes, structured, text};
use crate::support::{node, piped};
use crate::wire::member;

/// The largest message of the preset `25k`, in estimated tokens.
const CEILING: u64 = 25_000;

/// More than any threshold here.
fn long() -> String {
    "A long text without any structure. ".repeat(9_000)
}

fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

// Below the threshold and all else that is no large result, byte for byte, with no settings at all.
#[test]
fn small_results_pass_byte_for_byte() {
    let oddities = [
        (r#"{ "content" : [ {"type":"text","text":"\u0041\/é"} ] , "x":1.0, "x":1e2 }"#, "white space and duplicates"),
        (r#"{"content":[]}"#, "nothing"),
        (r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#, "an error"),
        (r#"{"content":[{"type":"future","what":[1,2]}],"_meta":{"a/b":1}}"#, "a new kind of block"),
        (r#"{"structuredContent":{"big":123456789012345678901234567890},"content":[]}"#, "big integers"),
        (r#"{"resultType":"complete","content":[{"type":"text","text":"x"}]}"#, "a modern result"),
        (r#"{"toolResult":7}"#, "the result of a very old server"),
        (r#"{}"#, "an empty object"),
        (r#"null"#, "null"),
    ];
    let script = oddities.iter().fold(Script::new(), |script, (result, name)| script.call(name, result));
    let mut gateway = script.start();
    for (result, name) in oddities {
        assert_eq!(result_bytes(&gateway.answer(name)), result, "{name}");
    }
    assert_eq!(gateway.offloads().len(), 0);
    assert_eq!(gateway.end().errors, "");
}

// Exactly the threshold passes, one character more does not; characters, not bytes.
#[test]
fn the_threshold_is_the_last_size_that_passes() {
    let script = ["x", "é", "文"].iter().fold(Script::new(), |script, letter| {
        let result = |count| text(&letter.repeat(count));
        script.call(&format!("at {letter}"), result(50_000)).call(&format!("over {letter}"), result(50_001))
    });
    let mut gateway = script.start();
    for letter in ["x", "é", "文"] {
        let at = gateway.call(&format!("at {letter}"), json!({}));
        assert!(first_text(&at).chars().count() == 50_000, "{letter}");
        gateway.descriptor(&format!("over {letter}"));
    }
}

/// Results that are large in every place where a result can be.
fn large_in_all_places() -> Vec<(&'static str, String)> {
    let long = long();
    let quoted = Value::from(long.as_str());
    let blocks = vec![json!({"type": "text", "text": "x".repeat(45_000)}); 3];
    let answer = |result: String| format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#);
    let of = |value: Value| answer(value.to_string());
    vec![
        ("text", of(text(&long))),
        ("escapes", of(text(&"\"\\\n".repeat(25_000)))),
        (
            "unicode escapes",
            answer(format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, r"\u0041".repeat(40_000))),
        ),
        ("structured", of(json!({"content": [], "structuredContent": {"a": long}}))),
        ("structured and text", of(large())),
        ("structured string", of(json!({"content": [], "structuredContent": long}))),
        ("metadata", of(json!({"content": [{"type": "text", "text": "x"}], "_meta": {"a": long}}))),
        ("metadata of a block", of(json!({"content": [{"type": "text", "text": "x", "_meta": {"a": long}}]}))),
        ("unknown member", of(json!({"content": [{"type": "text", "text": "x"}], "unknown": long}))),
        ("name of a member", of(json!({"content": [{"type": "text", "text": "x"}], long.as_str(): 1}))),
        ("result type", of(json!({"content": [{"type": "text", "text": "x"}], "resultType": long}))),
        ("is error", of(json!({"content": [{"type": "text", "text": "x"}], "isError": long}))),
        ("error", of(json!({"content": [{"type": "text", "text": long}], "isError": true}))),
        ("audience", of(json!({"content": [{"type": "text", "text": "x", "annotations": {"audience": [long]}}]}))),
        ("blocks", of(json!({ "content": blocks }))),
        ("many blocks", of(json!({"content": vec![json!({"type": "text", "text": "x"}); 9_000]}))),
        ("image", of(json!({"content": [{"type": "image", "data": "QUJD".repeat(75_000), "mimeType": "image/png"}]}))),
        ("media type", of(json!({"content": [{"type": "image", "data": "QUJD", "mimeType": long}]}))),
        ("link", of(json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "n", "description": long}]}))),
        ("resource", of(json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": long}}]}))),
        ("unknown block", of(json!({"content": [{"type": "future", "what": long}]}))),
        ("type of a block", of(json!({"content": [{"type": long}]}))),
        ("result twice", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{}},"result":{}}}"#, text(&long))),
        ("content twice", answer(format!(r#"{{"content":[],"content":[{{"type":"text","text":{quoted}}}]}}"#))),
        (
            "structured twice",
            answer(format!(r#"{{"content":[],"structuredContent":{{}},"structuredContent":{quoted}}}"#)),
        ),
        (
            "result and error",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":1,"message":""}},"result":{quoted}}}"#),
        ),
        ("no version", format!(r#"{{"id":@ID@,"result":{}}}"#, text(&long))),
        ("array", of(json!([text(&long)]))),
        ("string", of(quoted.clone())),
        ("no content", of(json!({ "toolResult": long }))),
        ("content is a string", of(json!({ "content": long }))),
        ("member of the envelope", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"more":{quoted},"result":{}}}"#, text("x"))),
        (
            "space in the envelope",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,{}"result":{}}}"#, " ".repeat(300_000), text("x")),
        ),
        ("protocol error", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":-32000,"message":{quoted}}}}}"#)),
        (
            "data of an error",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":1,"message":"x","data":{quoted}}}}}"#),
        ),
        (
            "result with a task inside",
            of(json!({"content": [{"type": "text", "text": long}], "task": {"taskId": "t"}})),
        ),
        (
            "result that says it is a task",
            of(json!({"resultType": "task", "taskId": "t", "content": [{"type": "text", "text": long}]})),
        ),
        (
            "result that says it asks",
            of(json!({"resultType": "input_required", "content": [{"type": "text", "text": long}]})),
        ),
    ]
}

/// What is past the ceiling of the preset `25k` among messages, by a count that shares no code with the gateway's.
fn past_the_ceiling(messages: &[String]) -> Vec<usize> {
    const COUNT: &str = "const { tokens } = await import(process.argv[1]);\n\
        const chunks = [];\n\
        for await (const chunk of process.stdin) chunks.push(chunk);\n\
        const messages = JSON.parse(Buffer.concat(chunks).toString());\n\
        console.log(JSON.stringify([...messages.keys()].filter((i) => tokens(messages[i]) > 25_000)));";
    let module = workspace().join("tests/tools/tokens/estimate.mjs");
    let output = piped(Command::new(node()).args(["--input-type=module", "-e", COUNT]).arg(module), messages);
    serde_json::from_slice(&output).unwrap()
}

// Of a message of 25,000 estimated tokens, all of it, not one more reaches the client.
#[test]
fn the_preset_is_25_000_tokens_on_the_wire() {
    let size = |count: usize| {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, text(&"漢".repeat(count)));
        wire_size(&message, SizeUnit::Tokens)
    };
    let most = (20_000..30_000).find(|count| size(count + 1) > CEILING).unwrap();
    let sizes = [most - 1, most, most + 2, most * 2];
    let script =
        sizes.iter().fold(Script::new(), |script, count| script.call(&count.to_string(), text(&"漢".repeat(*count))));
    let mut gateway = script.with_flags(&["--preset", "25k"]);
    let answers = sizes.map(|count| gateway.answer(&count.to_string()));
    for (count, answer) in sizes.iter().zip(&answers) {
        let whole = answer.contains(&"漢".repeat(*count));
        assert_eq!(whole, *count <= most, "{count}: {} tokens", wire_size(answer, SizeUnit::Tokens));
    }
    assert_eq!(past_the_ceiling(&answers), [0; 0]);
    assert_eq!(past_the_ceiling(&["漢".repeat(25_000)]), [0], "the count counts");
}

// Never more than the preset on the wire, whatever the shape.
#[test]
fn nothing_gets_past_the_ceiling() {
    let places = large_in_all_places();
    let script = places
        .iter()
        .fold(Script::new(), |script, (name, line)| script.line(&format!("tools/call {name}"), line.as_str()));
    let mut gateway = script.with_flags(&["--preset", "25k"]);
    let (mut past, mut answers) = (Vec::new(), Vec::new());
    for (name, _) in &places {
        let answer = gateway.answer(name);
        assert!(serde_json::from_str::<Value>(&answer).is_ok(), "{name}: {answer:.500}");
        let tokens = wire_size(&answer, SizeUnit::Tokens);
        if tokens > CEILING {
            past.push(format!("{name}: {tokens} tokens: {answer:.120}"));
        }
        answers.push(answer);
    }
    let counted = past_the_ceiling(&answers).into_iter().map(|index| format!("{}: by estimate.mjs", places[index].0));
    past.extend(counted);
    assert!(past.is_empty(), "past the ceiling:\n{}", past.join("\n"));
}

// A batch is one message on the wire.
#[test]
fn a_batch_keeps_to_the_ceiling_as_a_whole() {
    let answer =
        |id: &str, size: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, text(&"x".repeat(size)));
    let script = Script::new()
        .line("tools/call one", format!("[{}]", answer("@ID@", 300_000)))
        .line("tools/call two", format!("[{},{}]", answer("@ID@", 60_000), answer("\"other\"", 60_000)));
    for tool in ["one", "two"] {
        let mut gateway = script.with_flags(&["--preset", "25k"]);
        gateway.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool}}).to_string());
        let answer = gateway.next();
        assert!(wire_size(&answer, SizeUnit::Tokens) <= CEILING, "{tool}: {} bytes", answer.len());
    }
}

// The gateway's own answers keep to the ceiling, too.
#[test]
fn own_answers_keep_to_the_ceiling() {
    let mut gateway = Script::new().call("large", large()).with_flags(&["--preset", "25k"]);
    let handle = handle(&gateway.descriptor("large"));
    let calls = [
        ("tools/call", json!({"name": "lro_read", "arguments": {"handle": handle, "limit": 1000, "bytes": 1 << 20}})),
        ("tools/call", json!({"name": "lro_extract", "arguments": {"handle": handle, "limit": 100_000}})),
        ("resources/read", json!({"uri": format!("lro://{handle}/items")})),
    ];
    for (method, params) in calls {
        let answer = gateway.ask(method, params.clone());
        let tokens = wire_size(&answer, SizeUnit::Tokens);
        assert!(tokens <= CEILING, "{method} {params}: {tokens} tokens");
    }
}

// Several texts: small ones stay, none is lost, the order is kept.
#[test]
fn several_texts_are_all_kept_or_written() {
    let (first, last) = (long(), records(2_000).to_string());
    let blocks = json!([
        {"type": "text", "text": "before"}, {"type": "text", "text": first}, {"type": "text", "text": "between"},
        {"type": "text", "text": last}, {"type": "text", "text": "after"},
    ]);
    let mut gateway = Script::new().call("texts", json!({ "content": blocks })).start();
    let result = gateway.call("texts", json!({}));
    let found = descriptor(&result).unwrap();
    assert!(gateway.holds(first.as_bytes()), "{found}");
    assert!(gateway.holds(br#"{"id":1999,"#.as_slice()) || gateway.holds(br#""record number 1999""#), "{found}");
    let shown = result.to_string();
    let place = |text: &str| shown.find(text);
    let small = ["before", "between", "after"];
    for text in small {
        assert!(place(&format!("\"{text}\"")).is_some() || gateway.holds(text.as_bytes()), "{text} is lost: {shown}");
    }
    let places: Vec<_> = small.iter().filter_map(|text| place(&format!("\"text\":\"{text}\""))).collect();
    assert!(places.is_sorted(), "{shown}");
}

// Nothing that is not text is dropped.
#[test]
fn other_blocks_survive_or_are_files() {
    let base64 = |letter: &str| letter.repeat(80_000);
    let link =
        json!({"type": "resource_link", "uri": "file:///a", "name": "a", "size": 12, "annotations": {"priority": 0.5}});
    let cases = [
        ("image", json!({"type": "image", "data": base64("QUJD"), "mimeType": "image/png"}), "ABCABC"),
        ("audio", json!({"type": "audio", "data": base64("REVG"), "mimeType": "audio/wav"}), "DEFDEF"),
        (
            "resource",
            json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": long()}}),
            "without any structure",
        ),
        (
            "blob",
            json!({"type": "resource", "resource": {"uri": "a:c", "mimeType": "x/y", "blob": base64("R0hJ")}}),
            "GHIGHI",
        ),
        ("future", json!({"type": "future", "payload": long()}), "without any structure"),
    ];
    let script = cases.iter().fold(Script::new(), |script, (name, block, _)| {
        script.call(name, json!({"content": [link, block, {"type": "text", "text": "a word"}]}))
    });
    let mut gateway = script.with_toml("images = \"offload\"\n");
    for (name, _, proof) in cases {
        let result = gateway.call(name, json!({}));
        assert!(descriptor(&result).is_some(), "{name}: {:.500}", result.to_string());
        assert_eq!(result["content"][0], link, "{name}: small blocks stay");
        assert!(
            result["content"].as_array().unwrap().iter().any(|block| block["text"] == "a word"),
            "{name}: {result}"
        );
        assert!(gateway.holds(proof.as_bytes()), "{name} is in no file");
    }
}

// Structured content goes with its text, and is written once.
#[test]
fn structured_content_is_replaced_and_written_once() {
    let mut gateway = Script::new().call("both", large()).start();
    let result = gateway.call("both", json!({}));
    assert_eq!(Some(&result["structuredContent"]), descriptor(&result).as_ref(), "both halves say the same");
    let times = gateway
        .files()
        .iter()
        .map(|file| String::from_utf8_lossy(file).matches("record number 1999").count())
        .sum::<usize>();
    assert_eq!(times, 1, "the same data is written {times} times");
}

// Errors stay errors, and a reader sees what went wrong.
#[test]
fn errors_stay_readable_errors() {
    let message = format!("it broke because {} and that was the end", "of a long story, ".repeat(20_000));
    let mut error = text(&message);
    error["isError"] = true.into();
    let mut gateway = Script::new().call("error", error).start();
    let result = gateway.call("error", json!({}));
    assert_eq!(result["isError"], true);
    let shown = result.to_string();
    assert!(shown.contains("it broke because") && shown.contains("that was the end"), "{shown:.3000}");
    assert!(shown.len() < 60_000, "{} bytes", shown.len());
}

// Metadata is kept while it is small, and counted.
#[test]
fn metadata_is_kept_and_counted() {
    let mut small = large();
    small["_meta"] = json!({"example.org/a": {"b": [1, 2.0]}});
    let mut huge = text("small");
    huge["_meta"] = json!({ "example.org/a": long() });
    let mut gateway = Script::new().call("small", &small).call("huge", huge).start();
    let result = gateway.call("small", json!({}));
    assert_eq!(result["_meta"], small["_meta"]);
    let result = gateway.call("huge", json!({}));
    assert!(
        result.to_string().len() < 10_000 && result["content"][0]["text"] == "small",
        "{:.500}",
        result.to_string()
    );
    assert!(gateway.holds(b"without any structure"), "the metadata is lost");
}

// A question in the middle of a call goes on byte for byte, and so does its answer.
#[test]
fn input_required_passes_byte_for_byte() {
    let question = r#"{ "resultType" : "input_required", "inputRequests":{"a":{"method":"elicitation/create","params":{"n":1.0}}},"requestState":"b\u0041=" }"#;
    let script = Script::new().call("ask", question).steps(
        "tools/call ask#2",
        json!([r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@LINE@}]}}"#]),
    );
    let mut gateway = script.start();
    assert_eq!(result_bytes(&gateway.answer("ask")), question);
    let retry = r#"{"jsonrpc":"2.0","id":"again", "method":"tools/call","params":{"name":"ask","arguments":{},"inputResponses":{"a":{"action":"accept"}},"requestState":"b\u0041="}}"#;
    let answer: Value = serde_json::from_str(&gateway.ask_line(retry)).unwrap();
    assert_eq!(first_text(&answer["result"]), retry, "the server got other bytes");
}

// One warning with the tool, the size and the limit.
#[test]
fn a_large_result_is_logged() {
    let mut gateway = Script::new().call("talkative", text(&long())).call("quiet", text("x")).start();
    gateway.descriptor("talkative");
    gateway.answer("quiet");
    let errors = gateway.end().errors;
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 1, "{errors}");
    let size = format!("={}", long().len());
    for part in ["WARN", "talkative", &size, "50000", "offload"] {
        assert!(lines[0].contains(part), "{part}: {errors}");
    }
}

// What cannot be read becomes an error of that call that says so, and the next call works.
#[test]
fn broken_answers_are_clear_errors() {
    let answer = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#);
    let not_utf8 =
        [br#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":""#, &[0xff, 0xfe][..], br#""}]}}"#]
            .concat();
    let cases = [
        ("cut", json!([r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","#])),
        ("control character", json!([answer("{\"content\":[{\"type\":\"text\",\"text\":\"a\tb\"}]}")])),
        ("bad number", json!([answer(r#"{"content":[],"n":01}"#)])),
        ("bad escape", json!([answer(r#"{"content":[{"type":"text","text":"\x"}]}"#)])),
        ("comma", json!([answer(r#"{"content":[],}"#)])),
        ("more after the end", json!([format!("{} x", answer(r#"{"content":[]}"#))])),
        (
            "a message before it",
            json!([format!(r#"{{"jsonrpc":"2.0","method":"a/b"}} {}"#, answer(r#"{"content":[]}"#))]),
        ),
        ("nan", json!([answer(r#"{"content":[],"n":NaN}"#)])),
        ("python", json!([answer(r"{'content':[]}")])),
        ("not UTF-8", json!([{"bytes": base64(&not_utf8)}])),
        ("two contents", json!([answer(r#"{"content":[],"content":[]}"#)])),
        ("neither", json!([r#"{"jsonrpc":"2.0","id":@ID@}"#])),
        ("deep", json!([answer(&format!(r#"{{"content":[],"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000)))])),
    ];
    let script = cases
        .iter()
        .fold(Script::new(), |script, (name, steps)| script.steps(&format!("tools/call {name}"), steps.clone()));
    let mut gateway = script.call("good", text("good")).start();
    for (name, _) in cases {
        let answer: Value =
            serde_json::from_str(&gateway.answer(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = &answer["error"];
        assert_eq!(error["code"], -32603, "{name}: {answer:.300}");
        assert!(error["message"].as_str().unwrap().contains("the server"), "{name}: {error}");
        assert_eq!(first_text(&gateway.call("good", json!({}))), "good", "after {name}");
    }
}

/// For bytes that are no text.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

// What stands for a result has no cursor that a client would follow by itself, wherever the server put one: the descriptor
// shows it to the model as the argument that continues, and it is in a file.
#[test]
fn an_offloaded_reply_has_no_cursor() {
    let page = |more: Value| {
        let mut page = json!({ "items": records(2_000) });
        page.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        page
    };
    let with_cursor = |mut result: Value| {
        result["nextCursor"] = "the-next-page".into();
        result
    };
    let cases = [
        ("structured", structured(&page(json!({"total": 9, "nextCursor": "the-next-page"})))),
        ("snake case", structured(&page(json!({"next_cursor": {"id": "the-next-page"}})))),
        ("nested", structured(&page(json!({"page": {"number": 1, "nextCursor": "the-next-page"}})))),
        ("text", text(&page(json!({"nextCursor": "the-next-page"})).to_string())),
        ("beside", with_cursor(large())),
        ("beside a text", with_cursor(text(&long()))),
        ("twice", with_cursor(structured(&page(json!({"nextCursor": "the-next-page"}))))),
    ];
    let script = cases.iter().fold(Script::new(), |script, (name, result)| script.call(name, result));
    for strategy in ["rewrite", "strip", "shape", "block"] {
        let mut gateway = script.with_flags(&["--schema", strategy]);
        gateway.ask("tools/list", json!({}));
        for (name, _) in &cases {
            let result = gateway.call(name, json!({}));
            let found = descriptor(&result).unwrap();
            for key in ["nextCursor", "next_cursor"] {
                // Quoted once in structured content, and twice in the text.
                let is_there =
                    [format!("\"{key}\":"), format!("\"{key}\\\":")].iter().any(|key| result.to_string().contains(key));
                assert!(!is_there, "{strategy} {name}: {result}");
            }
            let guidance = found["guidance"].as_str().unwrap();
            // An object is not a value that an argument takes for sure.
            if *name == "snake case" {
                assert!(guidance.contains("more pages: their cursor is in `rest"), "{strategy} {name}: {guidance}");
                assert!(!result.to_string().contains("the-next-page"), "{strategy} {name}: {result}");
            } else {
                assert_eq!(found["paging"], json!({"next": {"cursor": "the-next-page"}}), "{strategy} {name}");
                assert!(guidance.contains("`paging.next`") && guidance.contains("`collect`"), "{guidance}");
            }
            let rests = found["files"].as_object().unwrap().keys().filter(|section| section.starts_with("rest"));
            let holds = |section: &String| {
                let read = gateway.call("lro_read", json!({"handle": handle(&found), "section": section}));
                read["structuredContent"]["records"].to_string().contains("the-next-page")
            };
            assert!(rests.map(holds).collect::<Vec<_>>().contains(&true), "{strategy} {name}: {found}");
        }
    }
    // A page that passes keeps its cursor, the last page has none to keep back, and a key that was asked for is shown.
    let small = with_cursor(structured(&json!({"items": records(3), "nextCursor": "b"})));
    let last = structured(&page(json!({"nextCursor": null})));
    let script = Script::new().call("small", &small).call("last", last).call("page", &cases[0].1);
    let mut gateway = script.with_flags(&["--inline-keys", "/nextCursor"]);
    assert_eq!(gateway.call("small", json!({})), small);
    let found = gateway.descriptor("last");
    assert_eq!((&found["/nextCursor"], &found["files"]["rest"]), (&Value::Null, &Value::Null), "{found}");
    assert_eq!(gateway.descriptor("page")["/nextCursor"], "the-next-page");
}

// A page says how much it is of; a total that is none, or that is smaller than the page, says nothing.
#[test]
fn a_page_says_what_it_is() {
    let page = |more: Value| {
        let mut page = json!({ "items": records(2_000) });
        page.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        structured(&page)
    };
    let info = json!({"hasNextPage": true, "endCursor": "c"});
    let edges =
        structured(&json!({"data": {"users": {"edges": records(2_000), "totalCount": 90_000, "pageInfo": info}}}));
    let both = |of: u64, next: Value| json!({"records": 2_000, "of": of, "next": next});
    let cases = [
        ("cursor", page(json!({"total": 90_000, "nextCursor": "b"})), both(90_000, json!({"cursor": "b"}))),
        ("offset", page(json!({"total": 90_000, "offset": 4_000})), both(90_000, json!({"offset": 6_000}))),
        ("page", page(json!({"has_more": true, "page": 3})), json!({"next": {"page": 4}})),
        ("edges", edges, both(90_000, json!({"cursor": "c"}))),
        ("total", page(json!({"total_count": 2_001})), json!({"records": 2_000, "of": 2_001})),
        ("limit", page(json!({"total": 2_001, "limit": 2_000})), json!({"records": 2_000, "of": 2_001})),
        ("sum", page(json!({"total": 90_000})), Value::Null),
        ("whole", page(json!({"total_count": 2_000})), Value::Null),
        ("smaller", page(json!({"total_count": 1_999})), Value::Null),
        ("text", page(json!({"total_count": "90000"})), Value::Null),
        ("last", page(json!({"has_more": false, "next_page_token": "b"})), Value::Null),
    ];
    let script = cases.iter().fold(Script::new(), |script, (name, result, _)| script.call(name, result));
    let mut gateway = script.start();
    for (name, _, wanted) in &cases {
        let found = gateway.descriptor(name);
        assert_eq!(found["paging"], *wanted, "{name}: {found}");
        let guidance = found["guidance"].as_str().unwrap();
        assert_eq!(guidance.contains("2,000 of 90,000 records"), wanted["of"] == 90_000, "{name}: {guidance}");
        assert_eq!(guidance.contains("`paging.next`"), !wanted["next"].is_null(), "{name}: {guidance}");
    }
}

// A policy may refuse; the advice is an error of the tool, and nothing is written.
#[test]
fn advice_in_the_place_of_data() {
    let mut structured_error = large();
    structured_error["resultType"] = "complete".into();
    let script = Script::new().call("large", structured_error).call("small", text("small"));
    for (flags, advice) in [
        (vec!["--action", "reject", "--advice", "Ask with `limit` and `offset`."], "Ask with `limit` and `offset`."),
        (vec!["--action", "reject"], ""),
    ] {
        let mut gateway = script.with_flags(&flags);
        let result = gateway.call("large", json!({}));
        assert_eq!(result["isError"], true, "{result:.500}");
        assert!(first_text(&result).contains(advice) && first_text(&result).len() > 20, "{result}");
        assert_eq!((&result["structuredContent"], &result["resultType"]), (&Value::Null, &"complete".into()));
        assert_eq!(gateway.call("small", json!({})), text("small"));
        assert_eq!(gateway.offloads().len(), 0);
    }
}

// Short enough that no client writes it to a file again, at any level, for any data.
#[test]
fn a_descriptor_is_never_large_itself() {
    let wide: Value = (0..3_000)
        .map(|field| (format!("field number {field} of a very wide record"), json!(field)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let many: Value =
        (0..40).map(|list| (format!("list {list}"), records(60))).collect::<serde_json::Map<_, _>>().into();
    let script = Script::new()
        .call("wide", structured(&json!({"items": [wide, wide, wide]})))
        .call("many", structured(&many))
        .call("members", structured(&wide))
        .call("text", text(&long()));
    for level in ["pointer", "standard", "full"] {
        let mut gateway = script.with_flags(&["--level", level]);
        for tool in ["wide", "many", "members", "text"] {
            let result = gateway.call(tool, json!({}));
            let descriptor = first_text(&result);
            assert!(descriptor.chars().count() < 50_000, "{level} {tool}: {}", descriptor.len());
        }
    }
}

// The reply is byte-identical, and the decision is in the log.
#[test]
fn audit_changes_nothing_and_tells() {
    let script = Script::new()
        .tool("large", r#"{"type":"object","additionalProperties":false,"properties":{"items":{}}}"#, large())
        .tool("small", "", text("small"));
    let setup = |flags| Setup { flags, log: "info", ..Setup::default() };
    let lines = |flags: &'static [&'static str]| {
        let mut gateway = script.silent(&setup(flags));
        let mut lines = vec![gateway.ask("initialize", crate::wire::initialize())];
        lines.push(gateway.ask("tools/list", json!({})));
        lines.push(gateway.answer("large"));
        lines.push(gateway.answer("small"));
        lines.push(gateway.ask("resources/templates/list", json!({})));
        assert_eq!(gateway.offloads().len(), 0);
        (lines, gateway.end().errors)
    };
    let (audited, log) = lines(&["--audit", "true"]);
    let (off, silence) = lines(&["--enabled", "false"]);
    assert_eq!(audited, off);
    assert!(!silence.contains("audit"), "{silence}");
    let decisions: Vec<&str> = log.lines().filter(|line| line.contains("audit")).collect();
    assert_eq!(decisions.len(), 2, "{log}");
    assert!(decisions[0].contains("large") && decisions[0].contains("offload"), "{log}");
    assert!(decisions[1].contains("small") && decisions[1].contains("pass"), "{log}");
}

// Off, both streams are as without the gateway.
#[test]
fn off_means_untouched() {
    let places = large_in_all_places();
    let script = places
        .iter()
        .fold(Script::new(), |script, (name, line)| script.line(&format!("tools/call {name}"), line.as_str()));
    let mut gateway = script.with_flags(&["--enabled", "off"]);
    assert_eq!(gateway.hello["instructions"], Value::Null);
    for (id, (name, line)) in places.iter().enumerate() {
        let id = id + 2;
        assert_eq!(gateway.answer(name), line.replace("@ID@", &id.to_string()), "{name}");
    }
    let sent = r#"{ "jsonrpc":"2.0","id":"last","method" : "scripted/seen","params":{"a":1.0,"a":"lro://x/y"} }"#;
    assert!(member(&gateway.ask_line(sent), &["result", "lines"]).unwrap().contains(&Value::from(sent).to_string()));
}
