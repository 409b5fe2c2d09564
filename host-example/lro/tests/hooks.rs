//! `lro hook` and `lro setup --hooks`, as agents and their users run them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in helpers of tests too, a failure is to end the test")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::{Home, stderr};

const AGENTS: [&str; 6] = ["claude", "codex", "copilot", "cursor", "gemini", "opencode"];

/// 5,000 records as a text, 130,000 characters.
fn records() -> String {
    json!((0..5000).map(|id| json!({"id": id, "city": format!("city {id}")})).collect::<Vec<_>>()).to_string()
}

fn ran(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What the hook of an agent answers. It ends well, whatever it gets.
fn answered(home: &Home, words: &[&str], event: &str) -> Value {
    let mut command = home.lro(words);
    command.env("HOME", home.0.path()).env("TMPDIR", home.0.path()).env("XDG_DATA_HOME", home.path("data"));
    let output = ran(command, event);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", output.stdout))
}

fn hook(home: &Home, agent: &str, event: &Value) -> Value {
    answered(home, &["hook", agent], &event.to_string())
}

/// An event of each agent, as its documentation has it, with this text as the result of its shell or, where hooks do not replace
/// that, of an MCP server.
fn event(agent: &str, text: &str) -> Value {
    let mcp = json!({"content": [{"type": "text", "text": text}]});
    match agent {
        "claude" => json!({
            "session_id": "s", "transcript_path": "/nowhere/s.jsonl", "cwd": "/", "hook_event_name": "PostToolUse",
            "tool_name": "Bash", "tool_input": {"command": "list"}, "tool_use_id": "1",
            "tool_response": {"stdout": text, "stderr": "", "interrupted": false, "isImage": false},
        }),
        "codex" => json!({
            "session_id": "s", "cwd": "/", "hook_event_name": "PostToolUse", "model": "m",
            "tool_name": "mcp__cities__list", "tool_input": {}, "tool_response": mcp, "tool_use_id": "1",
        }),
        "copilot" => json!({
            "sessionId": "s", "timestamp": 1, "cwd": "/", "toolName": "bash", "toolArgs": {"command": "list"},
            "toolResult": {"resultType": "success", "textResultForLlm": text},
        }),
        "cursor" => json!({
            "conversation_id": "s", "hook_event_name": "postToolUse", "cursor_version": "3.0.0",
            "tool_name": "MCP:list", "tool_input": {}, "tool_output": mcp.to_string(),
        }),
        "gemini" => json!({
            "session_id": "s", "cwd": "/", "hook_event_name": "AfterTool", "tool_name": "run_shell_command",
            "tool_input": {"command": "list"},
            "tool_response": {
                "llmContent": format!(
                    "<untrusted_context>\nOutput: {text}\nProcess Group PGID: 7\n</untrusted_context>"
                ),
                "returnDisplay": text,
            },
        }),
        "opencode" => json!({
            "tool": "bash", "sessionID": "s", "callID": "1", "args": {"command": "list"},
            "output": {"title": "list", "output": text, "metadata": {"exit": 0}},
        }),
        other => panic!("{other}"),
    }
}

/// The text that the model gets.
fn shown(agent: &str, answer: &Value) -> String {
    let text = match agent {
        "claude" => &answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"],
        "codex" | "gemini" => &answer["reason"],
        "copilot" => &answer["modifiedResult"]["textResultForLlm"],
        "cursor" => &answer["updated_mcp_tool_output"]["content"][0]["text"],
        "opencode" => &answer["set"]["output"],
        other => panic!("{other}"),
    };
    text.as_str().unwrap_or_else(|| panic!("{agent}: {answer}")).to_owned()
}

/// The descriptor in a text.
fn descriptor(text: &str) -> Value {
    let (start, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
    serde_json::from_str(&text[start..=end]).unwrap()
}

#[test]
fn a_large_result_of_each_agent_is_offloaded_whole() {
    let home = Home::new();
    for agent in AGENTS {
        let text = shown(agent, &hook(&home, agent, &event(agent, &records())));
        let descriptor = descriptor(&text);
        assert_eq!(descriptor["offloaded"], true, "{agent}: {text}");
        assert_eq!(descriptor["summary"]["records"]["count"], 5000, "{agent}: {text}");
        // A recipe runs in the shell of the agent.
        let recipe = descriptor["jq_recipes"]["records_count"].as_str().unwrap();
        let counted = home.command("sh").args(["-c", recipe]).output().unwrap();
        assert_eq!(String::from_utf8(counted.stdout).unwrap().trim(), "5000");
        let handle = PathBuf::from(descriptor["files"]["records"].as_str().unwrap());
        let handle = handle.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let found = home.lro(&["extract", &handle, "--where", "id == 4999"]).output().unwrap();
        assert!(String::from_utf8(found.stdout).unwrap().contains("city 4999"), "{agent}");
    }
}

#[test]
fn what_hooks_save_is_in_the_history() {
    let home = Home::new();
    for _ in 0..2 {
        hook(&home, "claude", &event("claude", &records()));
    }
    hook(&home, "claude", &event("claude", "small"));
    let report = home.lro(&["status", "--days", "2", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!((&report["total"]["calls"], &report["total"]["large"]), (&json!(2), &json!(2)), "{report}");
    assert!(report["days"].as_array().unwrap().iter().all(|day| day["tool"] == "Bash"), "{report}");
    assert!(report["total"]["tokens_saved"].as_u64().unwrap() > 60_000, "{report}");
}

#[test]
fn a_small_result_passes_in_the_words_of_each_agent() {
    let home = Home::new();
    for agent in AGENTS {
        assert_eq!(hook(&home, agent, &event(agent, "a few words")), json!({}), "{agent}");
    }
    assert!(!home.path("out").exists(), "nothing is written");
}

#[test]
fn what_replaces_a_result_has_the_form_that_the_tool_has() {
    let home = Home::new();
    let with = |tool: &str, response: Value| {
        let mut event = event("claude", "");
        event["tool_name"] = json!(tool);
        event["tool_response"] = response;
        hook(&home, "claude", &event)["hookSpecificOutput"]["updatedToolOutput"].clone()
    };
    let text = records();
    let bash = with("Bash", json!({"stdout": text, "stderr": "", "interrupted": false, "isImage": false}));
    assert_eq!((&bash["stderr"], &bash["interrupted"], &bash["isImage"]), (&json!(""), &json!(false), &json!(false)));
    let file = json!({"filePath": "/a", "content": text, "numLines": 1, "startLine": 1, "totalLines": 1});
    let read = with("Read", json!({"type": "text", "file": file}));
    assert_eq!(
        (&read["type"], &read["file"]["filePath"], &read["file"]["totalLines"]),
        (&json!("text"), &json!("/a"), &json!(1))
    );
    assert!(read["file"]["content"].as_str().unwrap().starts_with(r#"{"offloaded":true"#));
    let fetched = with(
        "WebFetch",
        json!({"bytes": 9, "code": 200, "codeText": "OK", "result": text, "durationMs": 1, "url": "u"}),
    );
    assert!(fetched["result"].as_str().unwrap().starts_with(r#"{"offloaded":true"#));
    assert_eq!(fetched["code"], 200);
    // MCP: a text, or content blocks.
    assert!(with("mcp__a__b", json!(text)).as_str().unwrap().starts_with(r#"{"offloaded":true"#));
    let blocks = with("mcp__a__b", json!([{"type": "text", "text": text}]));
    assert!(blocks[0]["text"].as_str().unwrap().starts_with(r#"{"offloaded":true"#), "{blocks}");
    // What a model does not see stays: bytes, and the text of a file before it was edited.
    let image = json!({"type": "image", "file": {"base64": text, "type": "image/png", "originalSize": 1}});
    assert_eq!(with("Read", image), Value::Null);
    assert_eq!(with("Edit", json!({"filePath": "/a", "originalFile": text, "content": text})), Value::Null);
}

#[test]
fn what_an_agent_has_put_in_a_file_is_offloaded_whole() {
    let home = Home::new();
    let text = records();
    let folder = home.path("s/tool-results");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.txt");
    fs::write(&file, &text).unwrap();
    let mut claude = event("claude", &text[..1000]);
    claude["transcript_path"] = json!(home.path("s.jsonl"));
    claude["tool_response"]["persistedOutputPath"] = json!(file);
    claude["tool_response"]["persistedOutputSize"] = json!(text.len());
    let updated = hook(&home, "claude", &claude)["hookSpecificOutput"]["updatedToolOutput"].clone();
    assert_eq!(updated.get("persistedOutputPath"), None, "else the model gets the agent's own words");
    assert_eq!(descriptor(updated["stdout"].as_str().unwrap())["summary"]["records"]["count"], 5000);

    let told = format!(
        "Error: result (130,000 characters) exceeds maximum allowed tokens. Output has been saved to {}.\nMore.",
        file.display()
    );
    let mut claude = event("claude", "");
    (claude["tool_name"], claude["tool_response"]) = (json!("mcp__a__b"), json!(told));
    claude["transcript_path"] = json!(home.path("s.jsonl"));
    let updated = hook(&home, "claude", &claude)["hookSpecificOutput"]["updatedToolOutput"].clone();
    assert_eq!(descriptor(updated.as_str().unwrap())["summary"]["records"]["count"], 5000);
    // A tool that says so of another file gets nothing of it.
    claude["transcript_path"] = json!(home.path("other.jsonl"));
    assert_eq!(hook(&home, "claude", &claude), json!({}));

    let file = home.path("1-copilot-tool-output-2.txt");
    fs::write(&file, &text).unwrap();
    let told =
        |file: &PathBuf| format!("Output too large to read at once (1 KB). Saved to: {}\nPreview", file.display());
    assert_eq!(
        descriptor(&shown("copilot", &hook(&home, "copilot", &event("copilot", &told(&file)))))["offloaded"],
        true
    );
    let other = folder.join("1-copilot-tool-output-2.txt");
    fs::write(&other, &text).unwrap();
    assert_eq!(hook(&home, "copilot", &event("copilot", &told(&other))), json!({}));

    let mut opencode = event("opencode", "the end of it");
    let file = home.path("data/opencode/tool-output/tool_1");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, &text).unwrap();
    opencode["output"]["metadata"] = json!({"truncated": true, "outputPath": file});
    assert_eq!(
        descriptor(&shown("opencode", &hook(&home, "opencode", &opencode)))["summary"]["records"]["count"],
        5000
    );
    opencode["output"]["metadata"] = json!({"truncated": true, "outputPath": home.path("none")});
    assert_eq!(hook(&home, "opencode", &opencode), json!({}));
}

// A tool may say whatever it likes of files; a hook that waits would stop the agent.
#[test]
fn no_file_is_read_but_what_the_agent_has_put_there() {
    let home = Home::new();
    let (secret, link, pipe) = (home.path("secret"), "link", "pipe");
    fs::write(&secret, records()).unwrap();
    let folders = [home.path("s/tool-results"), home.path("data/opencode/tool-output")];
    let mut named = vec![("Bash", "bash", secret.clone()), ("Bash", "bash", home.0.path().to_owned())];
    for folder in &folders {
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::copy(&secret, folder.join("result")).unwrap();
        fs::copy(&secret, folder.join("below/result")).unwrap();
        symlink(&secret, folder.join(link)).unwrap();
        assert!(Command::new("mkfifo").arg(folder.join(pipe)).status().unwrap().success());
        for name in [link, pipe, "below/result", "../secret", "none"] {
            named.push(("Bash", "bash", folder.join(name)));
        }
        // In the right place, but not said by the agent.
        named.push(("mcp__evil__x", "evil_x", folder.join("result")));
    }
    for (claude_tool, opencode_tool, file) in named {
        let mut claude = event("claude", "hi");
        (claude["tool_name"], claude["transcript_path"]) = (json!(claude_tool), json!(home.path("s.jsonl")));
        claude["tool_response"]["persistedOutputPath"] = json!(file);
        assert_eq!(hook(&home, "claude", &claude), json!({}), "{claude_tool}: {}", file.display());
        let mut opencode = event("opencode", "hi");
        opencode["tool"] = json!(opencode_tool);
        opencode["output"]["metadata"] = json!({"truncated": true, "outputPath": file});
        if opencode_tool == "evil_x" {
            opencode["output"]["content"] = json!([{"type": "text", "text": "hi"}]);
        }
        assert_eq!(hook(&home, "opencode", &opencode), json!({}), "{opencode_tool}: {}", file.display());
    }
    assert!(!home.path("out").exists(), "nothing is written");
}

// Members that only the agent's own tools have do not keep the result of another from being filtered.
#[test]
fn what_an_mcp_server_says_of_files_is_not_heard() {
    let home = Home::new();
    let mut claude = event("claude", &records());
    claude["tool_name"] = json!("mcp__evil__x");
    claude["tool_response"]["persistedOutputPath"] = json!("/nowhere");
    assert_eq!(descriptor(&shown("claude", &hook(&home, "claude", &claude)))["offloaded"], true);
    let mut opencode = event("opencode", "hi");
    opencode["output"]["content"] = json!([{"type": "text", "text": records()}]);
    opencode["output"]["metadata"] = json!({"outputPath": "/nowhere"});
    let set = hook(&home, "opencode", &opencode)["set"].clone();
    assert_eq!(descriptor(set["content"][0]["text"].as_str().unwrap())["offloaded"], true, "{set}");
}

#[test]
fn what_reads_offloads_passes() {
    let home = Home::new();
    let mut event = event("claude", &records());
    for tool in ["mcp__lro__lro_extract", "mcp_lro_lro_read", "MCP:lro_read", "lro-lro_sql"] {
        event["tool_name"] = json!(tool);
        assert_eq!(hook(&home, "claude", &event), json!({}), "{tool}");
    }
    event["tool_name"] = json!("Bash");
    let inside = format!("tail -n +2 '{}/default/x/records.jsonl'", home.path("out").display());
    for command in
        ["lro extract x --limit 5", "cd /a && /usr/bin/lro read x | head", "x=1 lro --dir \"a\" sql x", &inside]
    {
        event["tool_input"] = json!({"command": command});
        assert_eq!(hook(&home, "claude", &event), json!({}), "{command}");
    }
    for command in ["cat lro", "lro status; cat a", "git log extract"] {
        event["tool_input"] = json!({"command": command});
        assert_ne!(hook(&home, "claude", &event), json!({}), "{command}");
    }
}

#[test]
fn a_hook_never_stops_an_agent_whatever_comes() {
    let home = Home::new();
    let lone = r#"{"session_id":"s","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_response":{"stdout":"\ud800","stderr":""}}"#;
    let deep = ["[".repeat(5000), "]".repeat(5000)].concat();
    let mut inputs = vec![
        "".to_owned(),
        "{".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "{\"a\":1}{}".to_owned(),
        lone.to_owned(),
        deep,
    ];
    for agent in AGENTS {
        // An event with another value, or nothing, in each place.
        let whole = event(agent, &records());
        for key in whole.as_object().unwrap().keys() {
            for value in [
                json!(null),
                json!(7),
                json!("text"),
                json!([]),
                json!([{"text": 1}]),
                json!({"content": 5, "output": []}),
            ] {
                let mut other = whole.clone();
                other[key] = value;
                inputs.push(other.to_string());
            }
        }
    }
    for (index, input) in inputs.iter().enumerate() {
        let agent = AGENTS[index % AGENTS.len()];
        assert!(answered(&home, &["hook", agent], input).is_object(), "{agent}: {}", &input[..input.len().min(200)]);
    }
    let output = ran(home.lro(&["hook", "claude"]), "\u{0}");
    assert!(output.status.success());
}

#[test]
fn what_fails_passes_and_is_said_once_in_a_session() {
    let blocked = |home: &Home| {
        fs::write(home.path("file"), "").unwrap();
        home.path("file/out").display().to_string()
    };
    type Words = fn(&Home) -> Vec<String>;
    let failures: [(&str, Words); 5] = [
        ("a policy that is missing", |_| vec!["--policy".into(), "/nowhere.wasm".into()]),
        ("a configuration that is invalid", |_| vec!["--threshold".into(), "much".into()]),
        ("a configuration that is missing", |_| vec!["--config".into(), "/nowhere.toml".into()]),
        ("a full disk", |_| vec!["--quota-total".into(), "1".into()]),
        ("no directory", |home| vec!["--dir".into(), home.path("file/out").display().to_string()]),
    ];
    for (what, words) in failures {
        let home = Home::new();
        blocked(&home);
        let mut line = vec!["hook".to_owned(), "claude".to_owned()];
        line.extend(words(&home));
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let run = |session: &str| {
            let mut event = event("claude", &records());
            event["session_id"] = json!(session);
            let mut command = home.lro(&words);
            command.env_remove("XDG_CACHE_HOME").env("HOME", home.0.path());
            let output = ran(command, &event.to_string());
            assert!(output.status.success(), "{what}");
            (serde_json::from_slice::<Value>(&output.stdout).unwrap(), stderr(&output))
        };
        let (first, said) = run("one");
        assert!(first["systemMessage"].as_str().is_some_and(|text| text.starts_with("lro hook: ")), "{what}: {first}");
        assert_eq!(first.get("hookSpecificOutput"), None, "{what}");
        assert!(said.contains("lro hook: "), "{what}: {said}");
        assert_eq!(run("one"), (json!({}), String::new()), "{what}");
        assert_ne!(run("two").0, json!({}), "{what}: another session");
    }
    // A command line that is wrong must not end with the code that blocks.
    let home = Home::new();
    assert!(answered(&home, &["hook", "gemini", "--nonsense"], "{}")["systemMessage"].is_string());
    assert_eq!(answered(&home, &["hook", "nobody"], "{}"), json!({}));
}

#[test]
fn with_the_failure_mode_closed_the_error_is_in_the_place_of_the_result() {
    let home = Home::new();
    let words = ["hook", "claude", "--failure", "closed", "--policy", "/nowhere.wasm"];
    let answer = answered(&home, &words, &event("claude", &records()).to_string());
    assert!(shown("claude", &answer).starts_with("the result could not be filtered: "), "{answer}");
}

#[test]
fn settings_hold_for_the_tools_of_agents() {
    let home = Home::new();
    let config = home.path("lro.toml");
    fs::write(&config, "[tools.Bash]\nmode = \"never\"\n[tools.Grep]\nthreshold = 100\n").unwrap();
    let config = config.to_str().unwrap().to_owned();
    let run = |event: &Value| answered(&home, &["hook", "claude", "--config", &config], &event.to_string());
    assert_eq!(run(&event("claude", &records())), json!({}));
    let mut grep = event("claude", "");
    (grep["tool_name"], grep["tool_response"]) =
        (json!("Grep"), json!({"mode": "content", "content": "a line\n".repeat(100)}));
    assert_ne!(run(&grep), json!({}));
    assert_eq!(
        answered(&home, &["hook", "claude", "--enabled", "false"], &event("claude", &records()).to_string()),
        json!({})
    );
}

/// The command in a home directory, with agents in it.
fn set_up(home: &Home, words: &[&str]) -> String {
    let mut command = home.lro(&[&["setup", "--hooks"], words].concat());
    let output = command.env("HOME", home.0.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output)
}

#[test]
fn hooks_come_and_go_and_every_byte_of_a_configuration_is_back() {
    let before = [
        (
            ".claude/settings.json",
            "{\n    \"model\": \"opus\", // mine\n    \"hooks\": {\n        \"PostToolUse\": [\n            {\"matcher\": \"Edit\", \"hooks\": []}\n        ]\n    }\n}",
        ),
        (".gemini/settings.json", "{\"hooks\":{},\"theme\":\"x\"}\n"),
        (".cursor/hooks.json", "{ \"version\": 1, \"hooks\": { \"stop\": [ { \"command\": \"beep\" } ] } }"),
        (".codex/hooks.json", "{}"),
    ];
    let home = Home::new();
    for folder in [".copilot", ".config/opencode"] {
        fs::create_dir_all(home.path(folder)).unwrap();
    }
    for (file, text) in before {
        fs::create_dir_all(home.path(file).parent().unwrap()).unwrap();
        fs::write(home.path(file), text).unwrap();
    }
    let dry = set_up(&home, &["--dry-run"]);
    assert!(dry.contains("nothing was changed") && dry.contains("hook claude"), "{dry}");
    assert!(!home.path(".copilot/hooks").exists());
    let done = set_up(&home, &["--yes"]);
    assert!(done.contains(".copilot/hooks/lro-filter.json is created\n"), "{done}");
    assert!(done.contains("/.claude/settings.json is changed; its text before `lro setup` is in "), "{done}");
    let claude: Vec<String> =
        fs::read_to_string(home.path(".claude/settings.json")).unwrap().lines().map(str::to_owned).collect();
    assert!(
        claude.iter().any(|line| line.contains("// mine"))
            && claude.iter().any(|line| line.ends_with("\"Edit\", \"hooks\": []},")),
        "{claude:?}"
    );
    let gemini: Value = serde_json::from_slice(&fs::read(home.path(".gemini/settings.json")).unwrap()).unwrap();
    assert!(gemini["hooks"]["AfterTool"][0]["hooks"][0]["command"].as_str().unwrap().ends_with("lro hook gemini"));
    let cursor: Value = serde_json::from_slice(&fs::read(home.path(".cursor/hooks.json")).unwrap()).unwrap();
    assert_eq!((&cursor["version"], &cursor["hooks"]["stop"][0]["command"]), (&json!(1), &json!("beep")));
    assert!(cursor["hooks"]["postToolUse"][0]["command"].as_str().unwrap().ends_with("lro hook cursor"));
    let copilot: Value =
        serde_json::from_slice(&fs::read(home.path(".copilot/hooks/lro-filter.json")).unwrap()).unwrap();
    assert!(copilot["hooks"]["postToolUse"][0]["bash"].as_str().unwrap().ends_with("lro hook copilot"));
    assert!(home.path(".config/opencode/plugins/lro-filter.js").exists());
    // The command runs as the agent runs it.
    let command = gemini["hooks"]["AfterTool"][0]["hooks"][0]["command"].as_str().unwrap();
    let mut shell = home.command("sh");
    shell.args(["-c", command]);
    assert_eq!(ran(shell, &event("gemini", "small").to_string()).stdout, b"{}\n");

    assert!(set_up(&home, &["--yes"]).contains("nothing to change"), "once is enough");
    let done = set_up(&home, &["--undo", "--yes"]);
    assert!(done.contains(".copilot/hooks/lro-filter.json is removed\n"), "{done}");
    assert!(done.contains("/.claude/settings.json is changed\n"), "{done}");
    for (file, text) in before {
        assert_eq!(fs::read_to_string(home.path(file)).unwrap(), text, "{file}");
        assert!(!home.path(&format!("{file}.before-lro-hooks")).exists());
    }
    assert!(!home.path(".copilot/hooks/lro-filter.json").exists());
    assert!(!home.path(".config/opencode/plugins/lro-filter.js").exists());
}

#[test]
fn what_else_changed_in_a_configuration_stays_when_a_hook_goes() {
    let home = Home::new();
    let file = home.path(".claude/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{\n  \"a\": 1\n}\n").unwrap();
    set_up(&home, &["--yes"]);
    let changed = fs::read_to_string(&file).unwrap().replace("\"a\": 1", "\"a\": 2");
    fs::write(&file, changed).unwrap();
    set_up(&home, &["--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"a\": 2\n}\n");
    // A file that is no configuration stays, and the command says so.
    fs::write(&file, "{ nonsense").unwrap();
    let output = home.lro(&["setup", "--hooks", "--yes"]).env("HOME", home.0.path()).output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("not JSON"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ nonsense");
}
