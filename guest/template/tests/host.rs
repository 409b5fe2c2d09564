//! The component in a real host: `lro`, from the environment variable `LRO`, else on PATH.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Builds the component and returns its path.
fn component() -> String {
    let arguments = ["build", "--release", "--target", "wasm32-unknown-unknown", "--message-format", "json"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\nthe target comes with `rustup target add wasm32-unknown-unknown`");
    let messages = String::from_utf8(output.stdout).unwrap();
    let files = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut names = files.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    names.find_map(|name| name.as_str().filter(|name| name.ends_with(".wasm")).map(str::to_owned)).unwrap()
}

/// The host's report on a result, with a threshold of 200 bytes; `directory` is for the files.
fn offload(result: &Path, flags: &[&str], directory: &Path) -> Value {
    let lro = std::env::var("LRO").unwrap_or_else(|_| "lro".to_owned());
    let mut command = Command::new(&lro);
    command.args(["offload", "--json", "--failure", "closed", "--policy", &component(), "--threshold", "200"]);
    command.args(["--unit", "bytes", "--fsync", "never", "--dir"]).arg(directory).args(flags).arg(result);
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{lro}: {error}; `make build` in the repository of lro-filter builds it, the variable LRO says where it is"
        )
    });
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The path of a recorded result, and the result.
fn recorded(name: &str) -> (PathBuf, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results").join(name);
    let result = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    (path, result)
}

/// A directory for a test, which the host creates privately.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

#[test]
fn a_large_text_is_in_a_file_and_the_small_one_stays() {
    let directory = directory("log");
    let (path, recorded) = recorded("log.json");
    let report = offload(&path, &[], &directory);
    assert_eq!(report["verdict"], "offload", "{report}");
    let text = recorded["content"][1]["text"].as_str().unwrap().to_owned();
    let file = report["files"][0]["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    assert_eq!(report["descriptor"]["files"]["text"], file);
    let summary = &report["descriptor"]["summary"]["text"];
    assert_eq!((summary["lines"].as_u64(), summary["bytes"].as_u64()), (Some(120), Some(text.len() as u64)));
    assert_eq!(summary["head"].as_str().unwrap(), text.split_inclusive('\n').take(3).collect::<String>());
    let reply: Value = serde_json::from_str(report["reply"].as_str().unwrap()).unwrap();
    assert_eq!(reply["content"][0]["text"], "The last 120 lines:");
    assert_eq!(reply["content"][1]["text"].as_str().unwrap().parse::<Value>().unwrap(), report["descriptor"]);
}

#[test]
fn structured_content_is_one_json_file() {
    let directory = directory("search");
    let (path, recorded) = recorded("search.json");
    let report = offload(&path, &["--custom", "{\"head\": 0}"], &directory);
    let file = fs::read_to_string(report["files"][0]["path"].as_str().unwrap()).unwrap();
    assert!(!file.contains('\n'));
    assert_eq!(serde_json::from_str::<Value>(&file).unwrap(), recorded["structuredContent"]);
    assert_eq!(report["descriptor"]["summary"]["structured"]["head"], "");
}

#[test]
fn a_wrong_setting_is_an_error_of_the_policy() {
    let report = offload(&recorded("log.json").0, &["--custom", "{\"head\": true}"], &directory("wrong"));
    assert!(report["error"].as_str().unwrap().contains("custom: must be"), "{report}");
}

#[test]
fn many_blocks_are_one_text_and_one_section_of_records() {
    let directory = directory("blocks");
    let text = |number: usize| json!({ "type": "text", "text": format!("Note {number}:{}", " word".repeat(20)) });
    let record = |number: usize| json!({ "type": "text", "text": json!({ "id": number, "name": "é" }).to_string() });
    let image = json!({ "type": "image", "data": "QUJD", "mimeType": "image/png" });
    let mut content: Vec<Value> = (0..10_000).flat_map(|number| [text(number), record(number)]).collect();
    content.insert(5_000, image.clone());
    let path = directory.with_extension("json");
    fs::write(&path, json!({ "content": content, "_meta": { "trace": 7 } }).to_string()).unwrap();
    let report = offload(&path, &[], &directory);

    let files = report["files"].as_array().unwrap();
    let sections: Vec<_> = files.iter().map(|file| json!([file["section"], file["records"]])).collect();
    assert_eq!(sections, ["text", "blocks", "records"].map(|name| json!([name, 10_000])), "{report}");
    let file = |at: usize| fs::read_to_string(files[at]["path"].as_str().unwrap()).unwrap();
    let of_blocks = |parity: usize| content.iter().filter(|block| **block != image).skip(parity).step_by(2);
    let texts = |parity: usize| of_blocks(parity).map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(file(0).lines().collect::<Vec<_>>(), texts(0));
    assert_eq!(file(2).lines().skip(1).collect::<Vec<_>>(), texts(1));
    let reply: Value = serde_json::from_str(report["reply"].as_str().unwrap()).unwrap();
    assert_eq!((&reply["content"][1], &reply["_meta"]), (&image, &json!({ "trace": 7 })));
    assert_eq!(reply["content"].as_array().unwrap().len(), 2);
}
