//! Results of many content blocks: they are one result, and all of it is in the offload.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, descriptor, handle};

/// Most files of an offload, far below the limit of a call.
const FILES_MAX: usize = 64;

fn blocks(texts: impl IntoIterator<Item = String>) -> Value {
    let block = |text: String| json!({"type": "text", "text": text});
    json!({"content": texts.into_iter().map(block).collect::<Value>()})
}

/// A line of words and numbers, of so many bytes.
fn words(number: usize, bytes: usize) -> String {
    let mut text = format!("{number}:");
    while text.len() < bytes {
        let _ = write!(text, " word{}", text.len() * 7 + number);
    }
    text.truncate(bytes);
    text
}

/// The files that a manifest lists.
fn manifest(gateway: &Scripted) -> (Value, std::path::PathBuf) {
    let offload = gateway.offloads().pop().unwrap();
    let text = std::fs::read(offload.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&text).unwrap();
    (manifest["record"]["files"].clone(), offload)
}

fn records(directory: &Path, file: &Value) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join(file["name"].as_str().unwrap())).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find<'a>(files: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = files.as_array().unwrap().iter().find(|file| file[key] == value);
    found.unwrap_or_else(|| panic!("no file whose {key} is {value}: {files}"))
}

/// The texts of an offload, cut out of its file by its outline.
fn rebuilt(gateway: &Scripted) -> Vec<String> {
    let (files, directory) = manifest(gateway);
    assert!(files.as_array().unwrap().len() <= FILES_MAX, "{files}");
    let (text, outline) = (find(&files, "kind", "text"), find(&files, "origin", "outline"));
    assert_eq!(outline["derived_from"], text["name"]);
    let bytes = std::fs::read(directory.join(text["name"].as_str().unwrap())).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let outline = records(&directory, outline);
    let parts: Vec<Value> = outline.iter().map(|block| block["block"].clone()).collect();
    assert_eq!(text["parts"], Value::from(parts));
    let cut = |block: &Value| {
        let number = |key: &str| block[key].as_u64().unwrap() as usize;
        let text = &bytes[number("offset")..number("offset") + number("bytes")];
        let line = number("line") - 1;
        let of_lines = lines[line..line + number("lines")].concat();
        assert!(of_lines == text || of_lines == [text, b"\n"].concat(), "{block}");
        String::from_utf8(text.to_vec()).unwrap()
    };
    outline.iter().map(cut).collect()
}

// What a loop of a server made is one text, whether one of its blocks is small or not.
#[test]
fn many_texts_are_one_text_with_block_numbers() {
    for (count, bytes) in [(1_000, 400), (300, 900), (20_000, 120)] {
        let texts: Vec<String> = (0..count).map(|number| words(number, bytes)).collect();
        let mut gateway = Script::new().call("list", blocks(texts.clone())).start();
        let result = gateway.call("list", json!({}));
        assert_eq!(result["content"].as_array().unwrap().len(), 1, "{:.2000}", result.to_string());
        let found = descriptor(&result).unwrap();
        assert!(result.to_string().len() < 6_000, "{result}");
        assert!(!result.to_string().contains("omitted"), "{result}");
        assert_eq!(rebuilt(&gateway), texts);
        let (_, directory) = manifest(&gateway);
        let (text, shown) = (std::fs::read_to_string(directory.join("text.txt")).unwrap(), &found["summary"]["text"]);
        assert!(text.starts_with(shown["head"].as_str().unwrap()), "{shown}");
        assert!(text.ends_with(shown["tail"].as_str().unwrap()), "{shown}");
        // The block of a line, by one question.
        let block = json!([{"field": "block", "op": "eq", "value": count - 1}]);
        let question = json!({"handle": handle(&found), "section": "blocks", "where": block});
        let answer = gateway.call("lro_extract", question);
        assert!(answer.to_string().contains("offset"), "{answer}");
    }
}

// With line feeds in them, at their end, and nothing in them.
#[test]
fn texts_of_any_shape_are_cut_out_again() {
    let shapes = ["a\nb", "ends\n", "", "\n", "\r\n\n", "é漢🎉", "{not json", "42", "\"text\""];
    let texts: Vec<String> = (0..4_000).map(|number| shapes[number % shapes.len()].repeat(1 + number % 7)).collect();
    let gateway = {
        let mut gateway = Script::new().call("list", blocks(texts.clone())).with_toml("threshold = 1_000\n");
        gateway.descriptor("list");
        gateway
    };
    assert_eq!(rebuilt(&gateway), texts);
}

fn issue(number: usize) -> Value {
    json!({
        "number": number,
        "title": format!("Issue {number}"),
        "labels": [{"name": "bug"}, {"name": "area"}],
        "body": words(number, 1_500),
        "author": {"login": format!("user{}", number % 7)},
    })
}

// JSON objects, one a block or some a block, are the records of one section.
#[test]
fn many_json_blocks_are_the_records_of_one_section() {
    for a_block in [1, 5] {
        let issues: Vec<Value> = (0..60).map(issue).collect();
        let texts = issues.chunks(a_block).map(|issues| match issues {
            [one] => serde_json::to_string_pretty(one).unwrap(),
            several => json!(several).to_string(),
        });
        let mut gateway = Script::new().call("list", blocks(texts)).start();
        let found = gateway.descriptor("list");
        assert_eq!(found["summary"]["records"]["count"], 60, "{found}");
        let (files, directory) = manifest(&gateway);
        assert_eq!(files.as_array().unwrap().len(), 1, "{files}");
        assert_eq!(records(&directory, &files[0]), issues);
        let shape = if a_block == 1 { "value" } else { "elements" };
        assert_eq!((&files[0]["shape"], &files[0]["pointer"]), (&shape.into(), &"".into()));
        assert_eq!(files[0]["parts"].as_array().unwrap().len(), 60 / a_block);
        let query = json!({"handle": handle(&found), "where": [{"field": "author.login", "op": "eq", "value": "user3"}], "count": true});
        let answer = gateway.call("lro_extract", query);
        assert!(
            answer.to_string().contains("\\\"count\\\":9") || answer.to_string().contains("\"count\":9"),
            "{answer}"
        );
    }
}

// Remarks, records, texts, links and bytes in one result: each finds its kind, and nothing is lost.
#[test]
fn blocks_of_all_kinds_share_files_with_their_like() {
    let mut content = vec![json!({"type": "text", "text": "Found many things:"})];
    for number in 0..400 {
        content.push(json!({"type": "text", "text": issue(number).to_string()}));
        content.push(json!({"type": "text", "text": words(number, 700)}));
        content
            .push(json!({"type": "resource_link", "uri": format!("file:///{number}"), "name": format!("n{number}")}));
        let resource = json!({"uri": format!("blob:{number}"), "mimeType": "application/x-thing", "blob": "QUJD"});
        content.push(json!({"type": "resource", "resource": resource}));
    }
    let mut gateway = Script::new().call("all", json!({ "content": content })).with_toml("threshold = 2_000\n");
    let result = gateway.call("all", json!({}));
    assert_eq!(result["content"][0], content[0]);
    assert_eq!(result["content"].as_array().unwrap().len(), 2, "{:.3000}", result.to_string());
    let (files, directory) = manifest(&gateway);
    assert!(files.as_array().unwrap().len() <= FILES_MAX, "{files}");
    let section = |name: &str| records(&directory, find(&files, "section", name));
    assert_eq!(section("records"), (0..400).map(issue).collect::<Vec<_>>());
    let links: Vec<Value> = content[1..].chunks(4).map(|four| four[2].clone()).collect();
    assert_eq!(section("blocks"), links);
    let text = std::fs::read_to_string(directory.join("text.txt")).unwrap();
    assert_eq!(text, (0..400).map(|number| words(number, 700) + "\n").collect::<String>());
    let bytes = std::fs::read(directory.join("binary.bin")).unwrap();
    assert_eq!(bytes, b"ABC".repeat(400));
    let outline = find(&files, "derived_from", "binary.bin");
    assert_eq!(
        records(&directory, outline)[399],
        json!({"block": 1600, "offset": 1197, "bytes": 3, "name": "blob:399", "media_type": "application/x-thing"})
    );
}

// More than become parts are one part, whose array of blocks is a section.
#[test]
fn more_blocks_than_a_result_has_parts_are_records_of_it() {
    let texts: Vec<String> = (0..40_000).map(|number| words(number, 20)).collect();
    let mut gateway = Script::new().call("list", blocks(texts.clone())).start();
    gateway.descriptor("list");
    let (files, directory) = manifest(&gateway);
    let found = records(&directory, find(&files, "section", "content"));
    assert_eq!(found.iter().map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>(), texts);
}

/// A PNG of this size, as far as its header goes.
fn png(width: u32, height: u32, bytes: usize) -> String {
    use base64::Engine as _;
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    png.resize(bytes, 7);
    base64::engine::general_purpose::STANDARD.encode(png)
}

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

// A screenshot is for the model to see, whatever its length; beyond the bounds it becomes a file.
#[test]
fn images_stay_within_their_bounds() {
    let screenshot = image(&png(1_280, 800, 900_000));
    let audio = json!({"type": "audio", "data": "QUJD".repeat(50_000), "mimeType": "audio/wav"});
    let content = |blocks: Vec<Value>| json!({ "content": blocks });
    let shown = content(vec![json!({"type": "text", "text": "Taken."}), screenshot.clone(), audio.clone()]);
    let long = json!({"type": "text", "text": "a line of text\n".repeat(5_000)});
    let script = Script::new()
        .call("shot", &shown)
        .call("both", content(vec![long, screenshot.clone()]))
        .call("many", content(vec![image(&png(10, 10, 100)); 25]))
        .call("large", content(vec![screenshot.clone(); 12]));
    let mut gateway = script.start();
    assert_eq!(gateway.call("shot", json!({})), shown);
    let both = gateway.call("both", json!({}));
    assert!(descriptor(&both).is_some());
    assert_eq!(both["content"][1], screenshot);
    for (tool, stays) in [("many", 20), ("large", 9)] {
        let result = gateway.call(tool, json!({}));
        let images = result["content"].as_array().unwrap().iter().filter(|block| block["type"] == "image");
        assert_eq!(images.count(), stays, "{tool}");
        assert!(descriptor(&result).is_some(), "{tool}");
    }
    let toml = "[tools.shot]\nimages = \"offload\"\n[tools.many]\nimages-max = 30\n[tools.large]\nimages-bytes = 0\n";
    let mut gateway = script.with_toml(toml);
    let result = gateway.call("shot", json!({}));
    assert!(descriptor(&result).is_some());
    assert!(
        result["content"].as_array().unwrap().iter().all(|block| block["type"] == "text"),
        "{:.300}",
        result.to_string()
    );
    assert_eq!(gateway.call("many", json!({}))["content"].as_array().unwrap().len(), 25);
    assert_eq!(gateway.call("large", json!({}))["content"].as_array().unwrap().len(), 1);
}

// What an image costs counts, not the length of its base64.
#[test]
fn images_count_as_what_they_cost() {
    // 750 pixels a token, 4 characters a token: 1,000 × 750 pixels are 4,000 characters, and no image more than 6,400.
    let text = |bytes: usize| json!({"type": "text", "text": "x".repeat(bytes)});
    let with = |data: &str, bytes: usize| json!({"content": [image(data), text(bytes)]});
    let script = Script::new()
        .call("fits", with(&png(1_000, 750, 100_000), 46_000))
        .call("over", with(&png(1_000, 750, 100_000), 46_001))
        .call("huge", with(&png(10_000, 10_000, 100_000), 43_600))
        .call("unknown", with("QUJD", 43_601));
    let mut gateway = script.start();
    for (tool, is_offloaded) in [("fits", false), ("over", true), ("huge", false), ("unknown", true)] {
        let result = gateway.call(tool, json!({}));
        assert_eq!(descriptor(&result).is_some(), is_offloaded, "{tool}");
        assert_eq!(result["content"][0]["type"], "image", "{tool}");
    }
}

// A client with a limit gets no image that would break it.
#[test]
fn an_image_beyond_the_limit_of_the_client_is_a_file() {
    let shot = json!({"content": [image(&png(1_280, 800, 1_500_000))]});
    let mut gateway = Script::new().call("shot", &shot).silent(&crate::scripted::Setup::default());
    gateway.shake_hands("claude-ai");
    let result = gateway.call("shot", json!({}));
    assert!(descriptor(&result).is_some(), "{:.500}", result.to_string());
    assert!(result.to_string().len() < 1_000_000);
}

// Metadata stays where it is, and makes no section.
#[test]
fn metadata_stays_when_small_and_is_never_a_section() {
    let items: Value = (0..900).map(|id| json!({"id": id, "name": words(id, 60)})).collect();
    for (meta, stays) in [(json!({"trace": "abc"}), true), (json!({"rows": vec![words(1, 100); 200]}), false)] {
        let result = json!({"content": [], "structuredContent": {"items": items}, "_meta": meta});
        let mut gateway = Script::new().call("list", &result).start();
        let reply = gateway.call("list", json!({}));
        assert_eq!(reply["_meta"] == meta, stays, "{reply}");
        let found = descriptor(&reply).unwrap();
        let (files, directory) = manifest(&gateway);
        let sections = files.as_array().unwrap().iter().filter(|file| file["kind"] == "records").count();
        assert_eq!(sections, 1, "{files}");
        // One section: a question need not name it.
        let answer = gateway.call("lro_extract", json!({"handle": handle(&found), "count": true}));
        assert!(answer.to_string().contains("900"), "{answer}");
        if !stays {
            let file = find(&files, "section", "meta");
            let written = std::fs::read(directory.join(file["name"].as_str().unwrap())).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), meta);
        }
    }
}

// The name of a file has only the last step of a URI, and several may end alike.
#[test]
fn a_section_says_which_resource_it_was() {
    let resource = |user: u32| {
        let rows: Vec<Value> = (0..4_000).map(|row| json!({"user": user, "row": row})).collect();
        let text = [json!(rows).to_string(), words(1, 40_000)][user as usize % 2].clone();
        json!({"type": "resource", "resource": {"uri": format!("db://users/{user}/export"), "text": text}})
    };
    let script = Script::new().call("export", json!({"content": [resource(4_711), resource(4_712)]}));
    let mut gateway = script.start();
    let summary = gateway.descriptor("export")["summary"].clone();
    let uris: Vec<&str> = summary.as_object().unwrap().values().filter_map(|section| section["uri"].as_str()).collect();
    for user in [4_711, 4_712] {
        let uri = format!("db://users/{user}/export");
        assert!(uris.contains(&uri.as_str()), "{uri}: {summary}");
    }
}
