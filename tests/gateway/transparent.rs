//! What goes through the gateway, byte for byte: the same requests with and without it, and both streams compared.

use std::path::Path;

use lro_tests::test_data;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers::{
    Gateway, Server, everything, fetch, filesystem, git, memory, of_repository, paged, serve_text, sqlite, time,
};
use crate::support::{environment, path_text};
use crate::wire::{Recording, Wire, elements, id, initialize, member, modern_meta, request, shake_hands};

/// Answers of a server that does not have what it is asked for.
const METHOD_NOT_FOUND: i64 = -32601;

/// A server, and lines that are sent to it.
struct Script {
    server: Server,
    lines: Vec<String>,
}

impl Script {
    /// The handshake of legacy revisions, and requests after it.
    fn legacy(server: Server, requests: &[Value]) -> Self {
        let mut lines = vec![
            request("initialize", "initialize", initialize()).to_string(),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            // Nobody waits for it, so this is to be forwarded and nothing else.
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody","reason":"é"}}"#
                .to_owned(),
            // White space, an escape, and a member that nobody knows.
            r#" { "id" : "a \u00e9 b", "params" : {"unknown": 1.0}, "method" : "ping", "jsonrpc" : "2.0" } "#
                .to_owned(),
        ];
        lines.extend(requests.iter().map(Value::to_string));
        Self { server, lines }
    }

    /// Requests that each say who asks.
    fn modern(server: Server, requests: &[Value]) -> Self {
        let mut lines = vec![request("discover", "server/discover", json!({})).to_string()];
        lines.extend(requests.iter().map(Value::to_string));
        let with_meta = |line: &String| {
            let mut request: Value = serde_json::from_str(line).unwrap();
            request["params"]["_meta"] = modern_meta();
            request.to_string()
        };
        lines = lines.iter().map(with_meta).collect();
        let mut other = modern_meta();
        other["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
        lines.push(request("future", "tools/list", json!({ "_meta": other })).to_string());
        Self { server, lines }
    }

    /// Adds invalid messages, and a valid one at the end.
    fn with_invalid_messages(mut self) -> Self {
        let lines = [
            "this is not JSON",
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"[]"#,
            r#"{"jsonrpc":"2.0","method":"notifications/nobody/knows","params":{"big":12345678901234567890123,"e":1e2}}"#,
        ];
        self.lines.extend(lines.map(str::to_owned));
        let mut last = request("after the invalid ones", "tools/list", json!({}));
        if self.server.modern {
            last["params"]["_meta"] = modern_meta();
        }
        self.lines.push(last.to_string());
        self
    }

    /// Runs it against the server alone.
    fn direct(&self) -> Run {
        self.run(|server| Wire::start(&server.command, &server.variables))
    }

    /// Runs it against the gateway before the server.
    fn through(&self, gateway: &Gateway) -> Run {
        self.run(|server| gateway.wire(server))
    }

    /// Runs it against a server that keeps a copy of its input.
    fn run(&self, start: impl Fn(&Server) -> Wire) -> Run {
        let files = TempDir::new().unwrap();
        let input = files.path().join("input");
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), r#"tee "$0" | "$@""#.to_owned(), path_text(&input)];
        command.extend(self.server.command.iter().cloned());
        let Server { name, modern, .. } = self.server;
        let server = Server { name, command, variables: self.server.variables.clone(), modern, files };
        let recording = start(&server).record(&self.lines);
        Run { recording, input: std::fs::read_to_string(input).unwrap() }
    }

    /// The line with a request of this id.
    fn line(&self, wanted: &str) -> &str {
        self.lines.iter().find(|line| id(line).as_deref() == Some(wanted)).unwrap()
    }
}

/// Both streams of one run.
struct Run {
    recording: Recording,
    input: String,
}

/// Lists, and requests that fail.
fn common() -> Vec<Value> {
    vec![
        request(1, "tools/list", json!({})),
        request(2, "resources/list", json!({})),
        request(3, "resources/templates/list", json!({})),
        request(4, "prompts/list", json!({})),
        request(5, "no/such/method", json!({"a": [1.0, null]})),
        request(6, "tools/call", json!({"name": "no such tool", "arguments": {}})),
        request(7, "resources/read", json!({"uri": "nowhere://at/all"})),
        request(8, "prompts/get", json!({"name": "no such prompt"})),
        request(9, "ping", json!({})),
    ]
}

/// [`common`] and these calls of tools.
fn calls(tools: &[Value]) -> Vec<Value> {
    let call = |(number, tool): (usize, &Value)| request(100 + number, "tools/call", tool.clone());
    common().into_iter().chain(tools.iter().enumerate().map(call)).collect()
}

/// A call of a tool.
fn tool(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

/// All servers with requests whose answers are the same each time. `large` makes some results large.
fn scripts(large: bool) -> Vec<Script> {
    let data = test_data("npm/vega-datasets/data").canonicalize().unwrap();
    let file = |name: &str| path_text(&data.join(name));
    let big = "ü ".repeat(60_000);
    let or_small = |big: Value, small: Value| if large { big } else { small };
    let mut of_everything = calls(&[
        tool("echo", json!({"message": "ä \" \\ \u{1} \u{2028} 🎉"})),
        tool("echo", json!({"message": or_small(big.as_str().into(), "small".into())})),
        tool("get-structured-content", json!({"location": "New York"})),
        tool("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        tool("get-tiny-image", json!({})),
        tool("get-resource-links", json!({"count": 4})),
        tool("get-sum", json!({"a": 0.1, "b": 2})),
    ]);
    of_everything.extend([
        request(10, "resources/read", json!({"uri": "demo://resource/static/document/features.md"})),
        request(11, "prompts/get", json!({"name": "args-prompt", "arguments": {"city": "Bern"}})),
        request(12, "completion/complete", json!({
            "ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": {"name": "department", "value": "S"}})),
        request(13, "logging/setLevel", json!({"level": "error"})),
        request(14, "resources/subscribe", json!({"uri": "demo://resource/static/document/features.md"})),
    ]);
    let of_files = calls(&[
        tool("read_text_file", json!({"path": file(if large { "movies.json" } else { "cars.json" }), "head": 100})),
        tool("read_text_file", json!({"path": file("nowhere.json")})),
        tool("list_allowed_directories", json!({})),
    ]);
    let of_graph = calls(&[
        tool(or_small("read_graph".into(), "search_nodes".into()).as_str().unwrap(), json!({"query": "saw 17"})),
        tool("open_nodes", json!({"names": ["Entity 3", "nobody"]})),
    ]);
    let of_database = calls(&[
        tool(
            "read_query",
            json!({"query": or_small("select * from numbers".into(), "select * from numbers where id < 9".into())}),
        ),
        tool("list_tables", json!({})),
        tool("read_query", json!({"query": "nonsense"})),
    ]);
    let of_git = || {
        let server = git();
        let count = if large { 500 } else { 5 };
        let calls = calls(&[
            of_repository(&server, "git_log", json!({"max_count": count})),
            of_repository(&server, "git_status", json!({})),
            of_repository(&server, "git_show", json!({"revision": "nowhere"})),
        ]);
        (server, calls)
    };
    let of_times = calls(&[
        tool("convert_time", json!({"source_timezone": "Nowhere", "time": "12:00", "target_timezone": "UTC"})),
        tool("get_current_time", json!({})),
    ]);
    let url = serve_text(if large { big.clone() } else { "a page".to_owned() });
    let of_fetch = calls(&[tool("fetch", json!({"url": url, "raw": true, "max_length": 200_000}))]);
    let mut of_pages = calls(&[
        tool("rows", json!({"count": if large { 3000 } else { 3 }})),
        tool("table", json!({"count": if large { 3000 } else { 3 }})),
        tool("number_2", json!({})),
        tool("refuse", json!({"length": 30})),
    ]);
    for (number, (method, cursor)) in second_pages().into_iter().enumerate() {
        of_pages.push(request(200 + number, method, json!({ "cursor": cursor })));
        of_pages.push(request(300 + number, method, json!({"cursor": "no cursor"})));
    }
    let ((git_server, of_git_legacy), (modern_git, of_git_modern)) = (of_git(), of_git());
    vec![
        Script::legacy(everything(), &of_everything),
        Script::legacy(filesystem(&data), &of_files),
        Script::legacy(memory(), &of_graph),
        Script::legacy(sqlite(), &of_database),
        Script::legacy(Server { modern: false, ..git_server }, &of_git_legacy),
        Script::modern(modern_git, &of_git_modern),
        Script::modern(time(), &of_times),
        Script::modern(fetch(), &of_fetch),
        Script::legacy(Server { modern: false, ..paged() }, &of_pages),
        Script::modern(paged(), &of_pages),
    ]
}

/// The cursors of the second pages of the lists of the FastMCP server.
fn second_pages() -> [(&'static str, Value); 4] {
    let mut wire = paged().wire();
    shake_hands(&mut wire);
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list"].map(|method| {
        let page = wire.result(&request(1, method, json!({})));
        assert!(page["nextCursor"].is_string(), "{page}");
        (method, page["nextCursor"].clone())
    })
}

/// Runs this for each script, two at a time.
fn each(scripts: &[Script], prove: impl Fn(&Script) + Sync) {
    let (left, right): (Vec<_>, Vec<_>) = scripts.iter().enumerate().partition(|(number, _)| number % 2 == 0);
    std::thread::scope(|scope| {
        for half in [left, right] {
            scope.spawn(|| half.into_iter().for_each(|(_, script)| prove(script)));
        }
    });
}

/// Both streams are the same in all bytes.
fn assert_same(script: &Script, direct: &Run, through: &Run, how: &str) {
    assert_same_but(script, direct, through, how, |_, _, answer| answer.to_owned());
}

/// Both streams are the same when the answers of the gateway are undone by this, which gets request and both answers.
fn assert_same_but(script: &Script, direct: &Run, through: &Run, how: &str, undo: impl Fn(&str, &str, &str) -> String) {
    let name = script.server.name;
    for (id, expected) in &direct.recording.answers {
        let line = script.line(id);
        let answer = undo(line, expected, &through.recording.answers[id]);
        assert!(&answer == expected, "{name}, {how}: {line}\n{}", difference(expected, &answer));
    }
    assert_eq!(through.recording.others, direct.recording.others, "{name}, {how}: what is no answer");
    let (before, after) = (&direct.input, &through.input);
    assert!(before == after, "{name}, {how}: what the server reads\n{}", difference(before, after));
}

// Switched off, or only looking, the gateway changes nothing, however large the results are.
#[test]
fn off() {
    each(&scripts(true), |script| {
        let direct = script.direct();
        for flags in [["--enabled", "false"], ["--audit", "true"]] {
            assert_same(script, &direct, &script.through(&Gateway::new(&flags)), flags[0]);
        }
    });
}

// Switched off by the variable, it passes even what is no message.
// Switched on, it changes what it adds itself to, and nothing else.
#[test]
fn on() {
    let scripts: Vec<Script> = scripts(false).into_iter().map(Script::with_invalid_messages).collect();
    each(&scripts, |script| {
        let direct = script.direct();
        let mut off = Gateway::new(&[]);
        off.more = environment(&[("MCP_LRO_ENABLED", "false")]);
        assert_same(script, &direct, &script.through(&off), "off");
        assert_same_but(script, &direct, &script.through(&Gateway::new(&[])), "on", without_additions);
    });
}

// A tool whose results are never replaced keeps its schema, byte for byte; another does not.
#[test]
fn kept_schemas() {
    let data = test_data("npm/vega-datasets/data");
    let server = filesystem(&data);
    let config = path_text(&server.files.path().join("lro.toml"));
    std::fs::write(&config, "[tools.\"read_*\"]\nmode = \"never\"\n").unwrap();
    let script = Script::legacy(server, &common());
    let (direct, through) = (script.direct(), script.through(&Gateway::new(&["--config", &config])));
    let listed = |run: &Run| tool_list(&run.recording.answers["1"]).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let (direct, through) = (listed(&direct), listed(&through));
    let (mut kept, mut changed) = (0, 0);
    for (before, after) in direct.iter().zip(&through) {
        if member(before, &["name"]).unwrap().starts_with("\"read_") {
            assert_eq!(before, after);
            kept += 1;
        } else {
            changed += usize::from(before != after);
        }
    }
    assert!(kept >= 3 && changed >= 5, "{kept} and {changed}");
    assert_eq!(through.len(), direct.len() + 2);
}

// The gateway ends when its input does, and so does the server behind it.
#[test]
fn nothing_is_left_running() {
    for flags in [&[][..], &["--enabled", "false"]] {
        for server in [everything(), git(), sqlite()] {
            let mut gateway = Gateway::new(flags);
            let mark = path_text(gateway.directory.path());
            // A server is not given the settings of the gateway.
            gateway.more = environment(&[("MARK_OF_A_TEST", &mark)]);
            let mut wire = gateway.wire(&server);
            shake_hands(&mut wire);
            if let Some(running) = processes_with(&mark) {
                assert!(running.len() >= 2, "{}: {running:?}", server.name);
            }
            let ended = wire.end();
            assert!(ended.status.success(), "{}: {}: {}", server.name, ended.status, ended.errors);
            assert!(ended.lines.iter().all(|line| id(line).is_none()), "{}: {:?}", server.name, ended.lines);
            match processes_with(&mark) {
                Some(running) => assert_eq!(running, Vec::<String>::new(), "{}", server.name),
                None => println!("skipped: there is no /proc that tells what runs"),
            }
        }
    }
}

/// Commands of the processes that have this text in a variable.
fn processes_with(mark: &str) -> Option<Vec<String>> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let has_mark = |process: &std::path::PathBuf| {
        std::fs::read(process.join("environ")).is_ok_and(|variables| String::from_utf8_lossy(&variables).contains(mark))
    };
    let command = |process: std::path::PathBuf| {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ")
    };
    Path::new("/proc/self/environ").exists().then(|| processes.filter(has_mark).map(command).collect())
}

/// The answer of the gateway without what it may add. Panics when an addition is not as it is promised.
fn without_additions(request: &str, direct: &str, through: &str) -> String {
    let method: String = serde_json::from_str(member(request, &["method"]).unwrap()).unwrap();
    let is_first_page = member(request, &["params", "cursor"]).is_none();
    let missing = member(direct, &["error", "code"]) == Some(&METHOD_NOT_FOUND.to_string());
    match method.as_str() {
        "initialize" | "server/discover" if member(direct, &["result"]).is_some() => without_abilities(direct, through),
        "tools/list" if member(direct, &["result"]).is_some() => without_tools(direct, through, is_first_page),
        "resources/templates/list" if is_first_page => without_template(direct, through, missing),
        "resources/list" if missing => {
            assert_eq!(member(through, &["result", "resources"]), Some("[]"), "{through}");
            direct.to_owned()
        }
        _ => through.to_owned(),
    }
}

fn without_abilities(direct: &str, through: &str) -> String {
    let capabilities = ["result", "capabilities"];
    let (before, after) = (member(direct, &capabilities).unwrap(), member(through, &capabilities).unwrap());
    let mut expected: Value = serde_json::from_str(before).unwrap();
    for added in ["tools", "resources"] {
        expected.as_object_mut().unwrap().entry(added).or_insert_with(|| json!({}));
    }
    assert_eq!(serde_json::from_str::<Value>(after).unwrap(), expected);
    let through = replaced(through, after, before);
    let instructions = ["result", "instructions"];
    let (before, after) = (member(direct, &instructions), member(&through, &instructions).unwrap());
    let text = |json: &str| serde_json::from_str::<String>(json).unwrap();
    let of_server = before.map(text).unwrap_or_default();
    let (of_gateway, all) = (text(after), after);
    let added = of_gateway.strip_prefix(&of_server).unwrap_or_else(|| panic!("{of_gateway}"));
    assert!(added.contains("lro_extract"), "{added}");
    match before {
        Some(before) => replaced(&through, all, before),
        None => removed(&through, &format!("\"instructions\":{all}")),
    }
}

fn tool_list(answer: &str) -> Vec<&str> {
    elements(member(answer, &["result", "tools"]).unwrap_or_else(|| panic!("no tools: {answer}")))
}

fn without_tools(direct: &str, through: &str, is_first_page: bool) -> String {
    let mut answer = through.to_owned();
    if is_first_page {
        for name in ["lro_read", "lro_extract"] {
            let last = (*tool_list(&answer).last().unwrap()).to_owned();
            assert_eq!(member(&last, &["name"]), Some(format!("\"{name}\"").as_str()));
            answer = removed(&answer, &last);
        }
    }
    let tools = tool_list(direct);
    assert_eq!(tools.len(), tool_list(&answer).len());
    for (number, tool) in tools.iter().enumerate() {
        let Some(before) = member(tool, &["outputSchema"]) else { continue };
        let listed = tool_list(&answer)[number].to_owned();
        let after = member(&listed, &["outputSchema"]).unwrap_or_else(|| panic!("no schema: {listed}"));
        assert_widened(before, after);
        let restored = replaced(&listed, after, before);
        answer = replaced(&answer, tool_list(&answer)[number], &restored);
    }
    answer
}

/// The schema takes what it took before, or a descriptor.
fn assert_widened(before: &str, after: &str) {
    let (mut before, after): (Value, Value) =
        (serde_json::from_str(before).unwrap(), serde_json::from_str(after).unwrap());
    for key in ["$schema", "$defs", "definitions", "x-fastmcp-wrap-result"] {
        let moved = before.as_object_mut().unwrap().remove(key);
        assert_eq!(moved.as_ref(), after.get(key), "{after}");
    }
    assert_eq!((&after["type"], &after["anyOf"][0]), (&json!("object"), &before), "{after}");
    assert!(after["anyOf"][1]["properties"]["offloaded"].is_object(), "{after}");
    assert_eq!(after["anyOf"].as_array().unwrap().len(), 2, "{after}");
}

fn without_template(direct: &str, through: &str, missing: bool) -> String {
    let templates = elements(member(through, &["result", "resourceTemplates"]).unwrap_or_else(|| panic!("{through}")));
    let own = *templates.last().unwrap();
    assert!(member(own, &["uriTemplate"]).unwrap().starts_with("\"lro://"), "{own}");
    if missing {
        assert_eq!(templates.len(), 1);
        return direct.to_owned();
    }
    removed(through, own)
}

/// The text with a part of it replaced. The part is a slice of the text.
fn replaced(text: &str, part: &str, by: &str) -> String {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    assert_eq!(&text[start..start + part.len()], part);
    format!("{}{by}{}", &text[..start], &text[start + part.len()..])
}

/// The text without a member or an element, which is there once, and the comma before it.
fn removed(text: &str, item: &str) -> String {
    assert_eq!(text.matches(item).count(), 1, "{item} in {text}");
    let with_comma = format!(",{item}");
    text.replace(if text.contains(&with_comma) { &with_comma } else { item }, "")
}

/// Where two texts begin to differ.
fn difference(expected: &str, found: &str) -> String {
    let same = expected.bytes().zip(found.bytes()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(60)..text.len().min(same + 200)];
        String::from_utf8_lossy(bytes).into_owned()
    };
    format!(
        "from byte {same} on of {} and {}:\nexpected …{}…\nfound    …{}…",
        expected.len(),
        found.len(),
        around(expected),
        around(found)
    )
}
