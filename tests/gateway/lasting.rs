//! What lasts longer than a request, whatever way a client comes and whatever the server is: budgets, output schemas, and
//! replies that are given again.

use serde_json::{Value, json};

use crate::http::{Exchange, Headers, Session, open_modern};
use crate::scripted::{Script, Scripted, Setup, descriptor, handle, records, structured, text};
use crate::wire::{LEGACY, MODERN, request};

/// How a client comes to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    Stdio,
    /// Over HTTP, with a session.
    Legacy,
    /// Over HTTP, without one.
    Modern,
}

const FACES: [Face; 3] = [Face::Stdio, Face::Legacy, Face::Modern];

/// Where messages come, one by one.
pub(crate) enum Stream {
    Stdio,
    Http(Exchange),
}

/// A client of a gateway, in front of a command or of a server over HTTP.
pub(crate) struct Way {
    pub(crate) face: Face,
    pub(crate) gateway: Scripted,
    session: Option<Session>,
    url: String,
    name: String,
    /// The server over HTTP: a gateway that is off, in front of the command.
    _server: Option<Scripted>,
    calls: u32,
}

impl Way {
    /// `over_http` says what the server is. The script answers modern requests, too: it looks at no revision.
    fn open(script: &Script, toml: &str, face: Face, over_http: bool) -> Self {
        let mut server = over_http.then(|| {
            let flags = ["--listen", "127.0.0.1:0", "--enabled", "off"];
            script.silent(&Setup { flags: &flags, ..Setup::default() })
        });
        let upstream = server.as_mut().map(Scripted::url).unwrap_or_default();
        let listen: &[&str] = if face == Face::Stdio { &[] } else { &["--listen", "127.0.0.1:0"] };
        let setup = Setup { flags: listen, toml, upstream: &upstream, log: "info", ..Setup::default() };
        let mut gateway = script.silent(&setup);
        let url = if face == Face::Stdio { String::new() } else { gateway.url() };
        let mut way =
            Self { face, gateway, session: None, url, name: "lro-tests".to_owned(), _server: server, calls: 0 };
        way.begin();
        way
    }

    /// Another session over HTTP of the same tenant.
    pub(crate) fn another(&self) -> Session {
        Session::begin(&self.url)
    }

    /// Another session over HTTP of the same tenant, whose client declares these capabilities.
    pub(crate) fn another_with(&self, capabilities: &Value) -> Session {
        Session::begin_with(&self.url, "", self.introduction(capabilities))
    }

    fn introduction(&self, capabilities: &Value) -> Value {
        let info = json!({"name": self.name, "version": "1.0.0"});
        json!({"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info})
    }

    /// Another handshake of the same client, where there are handshakes, with these capabilities.
    pub(crate) fn declare(&mut self, capabilities: &Value) {
        match self.face {
            Face::Stdio => self.gateway.hello = self.gateway.result("initialize", self.introduction(capabilities)),
            Face::Legacy => self.session = Some(self.another_with(capabilities)),
            Face::Modern => {}
        }
    }

    /// Another session of the same client, where there are sessions.
    fn begin(&mut self) {
        match self.face {
            Face::Stdio => self.gateway.shake_hands("lro-tests"),
            Face::Legacy => self.session = Some(Session::begin(&self.url)),
            Face::Modern => {}
        }
    }

    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The answer to a request: a result, or an error. A modern client declares the capabilities that are in the metadata.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let answer = match self.face {
            Face::Stdio => return serde_json::from_str(&self.gateway.ask(method, params)).unwrap(),
            _ => self.open_request(method, params).finish().answer(),
        };
        assert_eq!(answer["id"], self.calls, "{answer}");
        answer
    }

    /// Sends a request whose messages are read one by one.
    pub(crate) fn open_stream(&mut self, method: &str, params: Value) -> Stream {
        self.calls += 1;
        if self.face == Face::Stdio {
            // The gateway numbers its requests, too.
            self.gateway.send(&request(1_000 + self.calls, method, params).to_string());
            return Stream::Stdio;
        }
        Stream::Http(self.open_request(method, params))
    }

    /// The stream for what belongs to no request.
    pub(crate) fn listen(&self) -> Stream {
        self.session.as_ref().map_or(Stream::Stdio, |session| Stream::Http(session.request("GET")))
    }

    /// The next message.
    pub(crate) fn next(&mut self, stream: &mut Stream) -> Value {
        match stream {
            Stream::Stdio => serde_json::from_str(&self.gateway.next()).unwrap(),
            Stream::Http(exchange) => exchange.event().unwrap(),
        }
    }

    fn open_request(&mut self, method: &str, mut params: Value) -> Exchange {
        if let Some(session) = &self.session {
            return session.open(&request(self.calls, method, params));
        }
        let subject = params["taskId"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": self.name, "version": "1.0.0"});
        let capabilities = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        if capabilities.is_null() {
            *capabilities = json!({});
        }
        let headers: Headers<'_> = &[("Mcp-Name", &subject)];
        open_modern(&self.url, &request(self.calls, method, params), headers)
    }

    /// Sends a response to a request of the server.
    pub(crate) fn respond(&mut self, response: &Value) {
        match &self.session {
            Some(session) => assert_eq!(session.open(response).status, 202),
            None => self.gateway.send(&response.to_string()),
        }
    }

    /// Sends a notification without parameters, again while the server of an earlier request is being started.
    pub(crate) fn notify(&mut self, method: &str) {
        let message = json!({"jsonrpc": "2.0", "method": method});
        loop {
            let exchange = match self.face {
                Face::Stdio => return self.gateway.send(&message.to_string()),
                Face::Legacy => self.session.as_ref().unwrap().open(&message),
                Face::Modern => open_modern(&self.url, &message, &[]),
            };
            let status = exchange.status;
            let text = exchange.finish().text();
            if status != 502 || !text.contains("the server is not running") {
                assert_eq!(status, 202, "{method}: {text}");
                return;
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn is_offloaded(&mut self, tool: &str) -> bool {
        descriptor(&self.call(tool, json!({}))).is_some()
    }

    /// The calls of this tool that the server has received, as lines.
    pub(crate) fn seen(&mut self, tool: &str) -> Vec<String> {
        let seen = self.result("scripted/seen", json!({}))["lines"].take();
        let lines: Vec<String> = serde_json::from_value(seen).unwrap();
        let is_call = |line: &String| line.contains("tools/call") && line.contains(&format!("\"{tool}\""));
        lines.into_iter().filter(is_call).collect()
    }

    /// How often the server was asked to call this tool, by a server that counts on its own.
    fn asked(&mut self, tool: &str) -> usize {
        self.seen(tool).len()
    }
}

/// Every way to a gateway with this configuration.
pub(crate) fn all_ways<'a>(script: &'a Script, toml: &'a str) -> impl Iterator<Item = (String, Way)> + 'a {
    FACES.into_iter().flat_map(move |face| {
        [false, true].map(move |over_http| {
            let server = if over_http { "HTTP" } else { "a command" };
            (format!("{face:?} before {server}"), Way::open(script, toml, face, over_http))
        })
    })
}

// A budget lasts as long as the session, or where there is none as long as the client goes on.
#[test]
fn a_budget_fills_whatever_the_way() {
    // About 3,000 tokens each, and about 30.
    let script = Script::new().call("middle", text(&"x".repeat(10_000))).call("small", text(&"x".repeat(100)));
    let toml = "[gateway]\nsession-budget = 7000\nsession-floor = 100\n";
    for (name, mut way) in all_ways(&script, toml) {
        assert_eq!([0; 4].map(|_| way.is_offloaded("middle")), [false, false, true, true], "{name}");
        assert!(!way.is_offloaded("small"), "{name}: the floor");
        match way.face {
            Face::Stdio => {}
            Face::Legacy => {
                way.begin();
                assert!(!way.is_offloaded("middle"), "{name}: another session has its own");
            }
            Face::Modern => {
                "another".clone_into(&mut way.name);
                assert!(!way.is_offloaded("middle"), "{name}: another client has its own");
                "lro-tests".clone_into(&mut way.name);
                assert!(way.is_offloaded("middle"), "{name}: and the first one goes on");
            }
        }
    }
}

// Results of tasks count, too.
#[test]
fn a_budget_counts_results_of_tasks() {
    let task =
        json!({"resultType": "complete", "taskId": "t", "status": "completed", "result": text(&"x".repeat(10_000))});
    let script = Script::new().result("tasks/get", task);
    for (name, mut way) in all_ways(&script, "[gateway]\nsession-budget = 7000\nsession-floor = 100\n") {
        let got = [0; 3].map(|_| way.result("tasks/get", json!({"taskId": "t"})));
        let offloaded = got.map(|task| descriptor(&task["result"]).is_some());
        assert_eq!(offloaded, [false, false, true], "{name}");
    }
}

// A client without a session that was silent for long begins anew.
#[test]
fn a_budget_ends_with_an_idle_client() {
    let script = Script::new().call("middle", text(&"x".repeat(10_000)));
    let toml = "[gateway]\nsession-budget = 4000\nsession-floor = 100\nsession-idle-seconds = 1\n";
    let mut way = Way::open(&script, toml, Face::Modern, false);
    assert_eq!([0; 2].map(|_| way.is_offloaded("middle")), [false, true]);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(!way.is_offloaded("middle"));
}

// A shape is kept by every way, once the tool was listed; until then the reply is an error with the descriptor.
#[test]
fn a_shape_is_kept_whatever_the_way() {
    let schema = json!({
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
        "$defs": {"item": {"type": "object", "required": ["id", "name", "even"]}},
    });
    let script = Script::new().tool("large", &schema.to_string(), structured(&json!({ "items": records(2_000) })));
    for (name, mut way) in all_ways(&script, "schema = \"shape\"\n") {
        let before = way.call("large", json!({}));
        assert_eq!((&before["isError"], &before["structuredContent"]), (&true.into(), &Value::Null), "{name}");
        handle(&descriptor(&before).unwrap());
        way.result("tools/list", json!({}));
        let shaped = way.call("large", json!({}));
        assert_eq!(shaped["structuredContent"]["items"], records(3), "{name}: {shaped:.500}");
        handle(&descriptor(&shaped).unwrap());
    }
}

/// A schema of which an unbounded check takes 2^40 steps, and one of which it takes all of the stack.
fn hostile_schemas() -> [Value; 2] {
    let mut definitions = json!({"d0": {"type": "object"}});
    for level in 1..=40 {
        let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
        definitions[format!("d{level}")] = json!({"allOf": [below, below]});
    }
    let doubled = json!({"$ref": "#/$defs/d40", "$defs": definitions});
    [doubled, json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})]
}

// A hostile schema costs a bounded number of steps: its tool is treated as `block` says, with a reason in the log.
#[test]
fn hostile_schemas_are_bounded() {
    let large = structured(&json!({ "items": records(2_000) }));
    let [doubled, endless] = hostile_schemas();
    let mut schema = json!({"type": "object", "title": "x".repeat(300_000)});
    schema["properties"]["items"] = json!({"type": "array"});
    let script = Script::new()
        .tool("doubled", &doubled.to_string(), &large)
        .tool("endless", &endless.to_string(), &large)
        .tool("long", &schema.to_string(), &large)
        .tool("benign", r#"{"type":"object"}"#, &large);
    for (name, mut way) in all_ways(&script, "schema = \"shape\"\n") {
        way.result("tools/list", json!({}));
        for (tool, reason) in [("doubled", "100000 steps"), ("endless", "256 levels"), ("long", "300")] {
            let reply = way.call(tool, json!({}));
            assert_eq!((&reply["isError"], &reply["structuredContent"]), (&true.into(), &Value::Null), "{name} {tool}");
            handle(&descriptor(&reply).unwrap());
            let found =
                way.gateway.told(&format!("cannot apply the output schema tenant=\"default\" tool=\"{tool}\" error="));
            assert!(found.contains(reason), "{name} {tool}: {found}");
        }
        assert!(way.call("benign", json!({}))["structuredContent"].is_object(), "{name}");
    }
}

// Identical calls of a tool that says so get the same offload; the server is asked once.
#[test]
fn identical_calls_get_the_same_offload() {
    let large = structured(&json!({ "items": records(2_000) }));
    let script = Script::new().call("again", &large).call("always", &large).call("small", text("small"));
    let toml = "[tools.\"again*\"]\nreuse-seconds = 600\n[tools.small]\nreuse-seconds = 600\n";
    for (name, mut way) in all_ways(&script, toml) {
        let spelled = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        let found: Vec<Value> = [
            r#"{"a": 1, "b": [1.0, {"x": "é", "y": null}]}"#,
            r#"{"b": [1.0, {"y": null, "x": "\u00e9"}], "a": 1}"#,
            r#"{"a":1,"b":[1.0,{"x":"é","y":null}]}"#,
        ]
        .into_iter()
        .map(|arguments| way.call("again", spelled(arguments)))
        .collect();
        let first = descriptor(&found[0]).unwrap();
        for other in &found[1..] {
            assert_eq!(descriptor(other).as_ref(), Some(&first), "{name}");
            assert_eq!(other["structuredContent"], found[0]["structuredContent"], "{name}");
            assert!(other["_meta"]["io.github.lro-filter/reused-seconds"].is_u64(), "{name}: {other:.300}");
        }
        assert!(found[0]["_meta"]["io.github.lro-filter/reused-seconds"].is_null(), "{name}");
        assert_eq!(way.asked("again"), 1, "{name}");
        // Other arguments, and numbers that are spelled otherwise.
        for arguments in [r#"{"a": 2}"#, r#"{"a": 2.0}"#, r#"{"a": "2"}"#, "{}"] {
            let other = descriptor(&way.call("again", spelled(arguments))).unwrap();
            assert_ne!(handle(&other), handle(&first), "{name} {arguments}");
        }
        assert_eq!(way.asked("again"), 5, "{name}");
        // Tools that do not say so, and what is no offload.
        for tool in ["always", "small"] {
            way.call(tool, json!({}));
            way.call(tool, json!({}));
            assert_eq!(way.asked(tool), 2, "{name} {tool}");
        }
        // What was read back still is.
        let read = way.call("lro_read", json!({"handle": handle(&first), "limit": 1}));
        assert_eq!(read["isError"], Value::Null, "{name}: {read}");
    }
}

// What is an error, part of a longer exchange, or asks for more than a result goes to the server each time.
#[test]
fn what_must_not_be_reused_goes_to_the_server() {
    let large = structured(&json!({ "items": records(2_000) }));
    let mut error = text(&"it broke ".repeat(20_000));
    error["isError"] = true.into();
    let ask = json!({"resultType": "input_required", "inputRequests": {}, "requestState": "s"});
    let script = Script::new()
        .call("error", error)
        .call("ask", ask)
        .call("large", &large)
        .call("twice", &large)
        .call("spelled", &large)
        .call("inline", &large);
    let toml = "[tools.\"*\"]\nreuse-seconds = 600\nhandles = true\n";
    let mut way = Way::open(&script, toml, Face::Stdio, false);
    for tool in ["error", "ask"] {
        way.call(tool, json!({}));
        way.call(tool, json!({}));
        assert_eq!(way.asked(tool), 2, "{tool}");
    }
    let first = handle(&descriptor(&way.call("large", json!({}))).unwrap());
    let mut expected = 1;
    for more in [
        json!({"task": {"ttl": 1}}),
        json!({"requestState": "s", "inputResponses": {}}),
        json!({"_meta": {"io.github.lro-filter/mode": "inline"}}),
        json!({"_meta": {"example.org/region": "eu"}}),
        json!({"arguments": {"data": format!("lro://{first}/items")}}),
        json!({"arguments": {"data": format!("lro://{first}/items")}}),
    ] {
        let mut params = json!({"name": "large", "arguments": {}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        way.result("tools/call", params);
        expected += 1;
        assert_eq!(way.asked("large"), expected, "{more}");
    }
    // The order of members, white space and escapes are no difference.
    let mut spelled = |arguments: &str| {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":"z","method":"tools/call","params":{{"name":"spelled","arguments":{arguments}}}}}"#
        );
        let answer: Value = serde_json::from_str(&way.gateway.ask_line(&call)).unwrap();
        handle(&descriptor(&answer["result"]).unwrap())
    };
    let one = spelled(r#"{"a":{"x":[1.50,"\u00e9"],"y":null},"b":2}"#);
    assert_eq!(spelled(r#"{ "b" : 2, "\u0061":{"y":null ,"x":[ 1.50,"é"]} }"#), one);
    assert_ne!(spelled(r#"{"a":{"x":[1.5,"é"],"y":null},"b":2}"#), one, "a number is what it is spelled like");
    assert_ne!(spelled(r#"{"a":{"x":["é",1.50],"y":null},"b":2}"#), one, "the order of elements counts");
    // A member twice means one thing to some servers and another to others.
    for id in ["x", "y"] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"twice","arguments":{{"a":1,"a":2}}}}}}"#
        );
        way.gateway.ask_line(&call);
    }
    assert_eq!(way.asked("twice"), 2);
    // A progress token is no difference.
    let reply = way.result("tools/call", json!({"name": "large", "arguments": {}, "_meta": {"progressToken": 7}}));
    assert_eq!(handle(&descriptor(&reply).unwrap()), first);
}

// A server over HTTP may know its users by a header, so what one of them got is for nobody else.
#[test]
fn reuse_is_not_for_users_that_the_server_knows() {
    let script = Script::new().call("large", structured(&json!({ "items": records(2_000) })));
    let toml = "[gateway]\nforward-headers = [\"x-forwarded-user\"]\n[tools.large]\nreuse-seconds = 600\n";
    let way = Way::open(&script, toml, Face::Modern, true);
    let ask = |headers: Headers<'_>| {
        let call = crate::http::modern_call(1, "large", json!({}));
        let answer = open_modern(&way.url, &call, headers).finish().answer();
        handle(&descriptor(&answer["result"]).unwrap_or_else(|| panic!("{answer:.500}")))
    };
    let first = ask(&[]);
    assert_eq!(ask(&[("User-Agent", "another"), ("Accept-Language", "*"), ("Sec-Fetch-Mode", "cors")]), first);
    // It stays here.
    assert_eq!(ask(&[("Cookie", "user=a")]), first);
    for headers in [("Authorization", "Bearer a"), ("X-Forwarded-User", "a"), ("Accept-Language", "de")] {
        let own = ask(&[headers]);
        assert!(own != first && ask(&[headers]) != own, "{headers:?}");
    }
    assert_eq!(ask(&[]), first);
}

// Only while the offload is there, and within the time of the setting.
#[test]
fn reuse_ends_with_the_offload() {
    let large = structured(&json!({ "items": records(2_000) }));
    let script = Script::new().call("gone", &large).call("late", &large);
    let toml = "[tools.gone]\nreuse-seconds = 600\n[tools.late]\nreuse-seconds = 1\n";
    let mut way = Way::open(&script, toml, Face::Stdio, false);
    let first = handle(&descriptor(&way.call("gone", json!({}))).unwrap());
    for offload in way.gateway.offloads() {
        std::fs::remove_dir_all(offload).unwrap();
    }
    let second = handle(&descriptor(&way.call("gone", json!({}))).unwrap());
    assert_ne!(first, second);
    assert_eq!(handle(&descriptor(&way.call("gone", json!({}))).unwrap()), second);
    let early = handle(&descriptor(&way.call("late", json!({}))).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_ne!(handle(&descriptor(&way.call("late", json!({}))).unwrap()), early);
}

// Each tenant has its own, and so has each kind of client.
#[test]
fn reuse_is_of_one_tenant_and_kind_of_client() {
    let large = structured(&json!({ "items": records(2_000) }));
    let script = Script::new().call("large", &large);
    let toml = "[tools.large]\nreuse-seconds = 600\n[gateway.tokens]\nacme = \"env:T_ACME\"\nbeta = \"env:T_BETA\"\n\
                [clients.linking]\nresource-links = true\n";
    let variables = [("T_ACME", "acme-token-0123456789"), ("T_BETA", "beta-token-0123456789")];
    let flags = ["--listen", "127.0.0.1:0"];
    let mut gateway = script.silent(&Setup { flags: &flags, toml, variables: &variables, ..Setup::default() });
    let url = gateway.url();
    let ask = |token: &str, client: &str| {
        let bearer = format!("Bearer {token}");
        let headers: Headers<'_> = &[("Authorization", &bearer)];
        let metadata = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1.0.0"},
        });
        let params = json!({"name": "large", "arguments": {}, "_meta": metadata});
        let answer = open_modern(&url, &request(1, "tools/call", params), headers).finish().answer();
        handle(&descriptor(&answer["result"]).unwrap_or_else(|| panic!("{answer:.500}")))
    };
    let [acme, beta] = variables.map(|(_, token)| token);
    let first = ask(acme, "one");
    assert_eq!(ask(acme, "two"), first, "a client of the same kind");
    assert_ne!(ask(acme, "linking"), first, "a client that gets other replies");
    let other = ask(beta, "one");
    assert_ne!(other, first);
    assert_eq!((ask(acme, "one"), ask(beta, "one")), (first, other));
}

// The clients of a tenant that are remembered are bounded in number, and the one that was silent for longest goes first.
#[test]
fn remembered_clients_are_bounded() {
    let script = Script::new().call("middle", text(&"x".repeat(10_000))).call("small", text("x"));
    let toml = "[gateway]\nsession-budget = 4000\nsession-floor = 100\n";
    let mut way = Way::open(&script, toml, Face::Modern, false);
    assert_eq!([0; 2].map(|_| way.is_offloaded("middle")), [false, true]);
    for number in 0..1_023 {
        way.name = format!("client {number}");
        way.call("small", json!({}));
    }
    "lro-tests".clone_into(&mut way.name);
    assert!(way.is_offloaded("middle"), "one of 1,024");
    for number in 0..1_024 {
        way.name = format!("another client {number}");
        way.call("small", json!({}));
    }
    "lro-tests".clone_into(&mut way.name);
    assert!(!way.is_offloaded("middle"), "forgotten");
}

// So are the bytes of schemas; a tool whose schema was forgotten is treated as one that was not listed.
#[test]
fn remembered_schemas_are_bounded() {
    let large = structured(&json!({ "items": records(2_000) }));
    let schema = json!({"type": "object", "title": "x".repeat(250_000)}).to_string();
    let names: Vec<String> = (10..30).map(|number| format!("tool {number}")).collect();
    let script = names.iter().fold(Script::new(), |script, name| script.tool(name, &schema, &large));
    let mut gateway = script.with_flags(&["--schema", "shape"]);
    gateway.tools();
    let is_shaped =
        |name: &String, gateway: &mut Scripted| gateway.call(name, json!({}))["structuredContent"].is_object();
    let shaped: Vec<bool> = names.iter().map(|name| is_shaped(name, &mut gateway)).collect();
    let expected: Vec<bool> = (0..20).map(|index| index >= 4).collect();
    assert_eq!(shaped, expected, "4 MiB hold 16 of them");
}

// So are the bytes of replies.
#[test]
fn remembered_replies_are_bounded() {
    let mut mixed = structured(&json!({ "items": records(2_000) }));
    let image = json!({"type": "image", "data": "QUJD".repeat(12_000), "mimeType": "image/png"});
    mixed["content"].as_array_mut().unwrap().push(image);
    let script = Script::new().call("mixed", mixed);
    let mut way = Way::open(&script, "[tools.mixed]\nreuse-seconds = 600\n", Face::Stdio, false);
    let mut ask = |number: u32| handle(&descriptor(&way.call("mixed", json!({ "number": number }))).unwrap());
    let handles: Vec<String> = (0..100).map(&mut ask).collect();
    assert_eq!(ask(99), handles[99]);
    assert_ne!(ask(0), handles[0], "100 replies of 50,000 bytes are more than 4 MiB");
}
