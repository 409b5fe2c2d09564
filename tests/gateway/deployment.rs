//! The files for Docker Compose and Kubernetes: the commands in them run as they stand there, with another directory, server and
//! port, and what they name is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use lro_tests::{free_port, read, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, new_mark, text};
use crate::http::{Exchange, Session};
use crate::support::{Environment, environment, lro, path_text, python};

/// Where both files put the settings.
const CONFIG: &str = "/etc/lro/lro.toml";

const TOKEN: &str = "a-token-of-a-client";

/// How a gateway runs there.
struct Deployed {
    arguments: Vec<String>,
    variables: Environment,
    config: String,
    /// The probe that runs a command.
    probe: Vec<String>,
    user: Option<u64>,
    /// Where something is mounted.
    mounts: Vec<String>,
    /// Ports of the container by their numbers.
    ports: Vec<u64>,
}

fn file(name: &str) -> PathBuf {
    workspace().join("host-example/dist").join(name)
}

/// The documents of a YAML file.
fn documents(name: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = Command::new(python()).args(["-c", script, &path_text(&file(name))]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn compose() -> Vec<Deployed> {
    let all = documents("compose.yaml").remove(0);
    let of_gateway = |service: &&Value| service["command"][0] == "gateway";
    let services = all["services"].as_object().unwrap();
    let deployed = services.values().filter(of_gateway).map(|service| {
        let secrets = list(&service["secrets"]).into_iter().map(|name| format!("/run/secrets/{name}"));
        let configs =
            service["configs"].as_array().unwrap().iter().map(|one| one["target"].as_str().unwrap().to_owned());
        let config = &all["configs"][service["configs"][0]["source"].as_str().unwrap()]["content"];
        let probe = list(&service["healthcheck"]["test"]);
        assert_eq!((probe[0].as_str(), service["read_only"].as_bool()), ("CMD", Some(true)));
        Deployed {
            arguments: list(&service["command"]),
            variables: serde_json::from_value(service["environment"].clone()).unwrap(),
            config: config.as_str().unwrap().to_owned(),
            probe: probe[1..].to_vec(),
            user: None,
            mounts: secrets.chain(configs).chain(list(&service["volumes"])).chain(list(&service["tmpfs"])).collect(),
            ports: vec![8808, 9808],
        }
    });
    deployed.collect()
}

fn kubernetes() -> Deployed {
    let all = documents("kubernetes.yaml");
    let of_kind = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap();
    let pod = &of_kind("Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let variables = container["env"].as_array().unwrap().iter();
    let variables =
        variables.filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].as_str()?.to_owned())));
    let names = |values: &Value, key: &str| {
        values.as_array().unwrap().iter().map(|one| one[key].clone()).collect::<Vec<Value>>()
    };
    let (mounts, ports) = (names(&container["volumeMounts"], "mountPath"), names(&container["ports"], "containerPort"));
    // Probes ask ports by their names, and services lead to them.
    let named = names(&container["ports"], "name");
    for probe in ["startupProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert!(named.contains(&get["port"]) && get["path"] == "/healthz", "{get}");
    }
    assert!(named.contains(&container["livenessProbe"]["tcpSocket"]["port"]));
    let services: Vec<&Value> = all.iter().filter(|one| one["kind"] == "Service").collect();
    assert_eq!(services.len(), 2);
    for service in services {
        assert!(named.contains(&service["spec"]["ports"][0]["targetPort"]), "{service}");
    }
    let (volumes, mounted) = (names(&pod["volumes"], "name"), names(&container["volumeMounts"], "name"));
    assert!(mounted.iter().all(|name| volumes.contains(name)), "{mounted:?}");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    Deployed {
        arguments: list(&container["args"]),
        variables: variables.collect(),
        config: of_kind("ConfigMap")["data"]["lro.toml"].as_str().unwrap().to_owned(),
        probe: Vec::new(),
        user: pod["securityContext"]["runAsUser"].as_u64(),
        mounts: mounts.iter().map(|path| path.as_str().unwrap().to_owned()).collect(),
        ports: ports.iter().map(|port| port.as_u64().unwrap()).collect(),
    }
}

/// Runs a gateway as it is deployed, asks it, and asks whether it is healthy.
fn run(deployed: &Deployed) {
    let (home, upstream) = (TempDir::new().unwrap(), FaultyHttp::start());
    let put = |name: &str, content: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, content).unwrap();
        path_text(&path)
    };
    let table: toml::Table = deployed.config.parse().unwrap();
    assert!(table["store"].as_str().unwrap().starts_with("s3://"));
    let gateway = &table["gateway"];
    let token = gateway["tokens"]["default"].as_str().unwrap().strip_prefix("file:").unwrap();
    let is_mounted = |path: &str| deployed.mounts.iter().any(|mount| Path::new(path).starts_with(mount));
    assert!(
        is_mounted(token) && is_mounted(CONFIG) && is_mounted("/data") && is_mounted("/tmp"),
        "{:?}",
        deployed.mounts
    );
    let metrics = gateway.get("metrics-listen").and_then(|text| text.as_str()).map(str::to_owned);
    let metrics = metrics.unwrap_or_else(|| deployed.variables["MCP_LRO_GATEWAY_METRICS_LISTEN"].clone());
    for address in [gateway["listen"].as_str().unwrap(), &metrics] {
        let port: u64 = address.rsplit(':').next().unwrap().parse().unwrap();
        assert!(deployed.ports.contains(&port), "{address}: {:?}", deployed.ports);
    }
    let config = put("lro.toml", &deployed.config.replace(token, &put("client-token", TOKEN)));
    let here = |arguments: &[String]| -> Vec<String> {
        assert!(arguments.contains(&CONFIG.to_owned()), "{arguments:?}");
        arguments.iter().map(|word| if word == CONFIG { config.clone() } else { word.clone() }).collect()
    };
    let mut variables = deployed.variables.clone();
    variables.extend(environment(&[
        ("MCP_LRO_STORE", &format!("dir:{}", path_text(&home.path().join("out")))),
        ("MCP_LRO_GATEWAY_LISTEN", "127.0.0.1:0"),
        ("MCP_LRO_GATEWAY_METRICS_LISTEN", &format!("127.0.0.1:{}", free_port())),
        ("MCP_LRO_GATEWAY_UPSTREAM", &upstream.url),
    ]));
    let arguments = here(&deployed.arguments);
    assert_eq!(arguments[0], "gateway");
    let flags: Vec<&str> = arguments[1..].iter().map(String::as_str).collect();
    let mut gate = Gate::start(&flags, &[], &new_mark(), &variables);
    let metrics = gate.told("metrics on ");
    gate.url = gate.told("listening on ");
    let session = Session::begin_as(&gate.url, TOKEN);
    assert_eq!(text(&session.call("a", "echo", json!({"text": "it runs"}))), "it runs");
    assert_eq!(Exchange::open(&gate.url, "POST", &[], b"{}").status, 401, "others need the token");
    let health = metrics.replace("/metrics", "/healthz");
    assert_eq!(Exchange::open(&health, "GET", &[], b"").finish().text(), "ok\n");
    let ask = || {
        let probe = if deployed.probe.is_empty() { Vec::new() } else { here(&deployed.probe) };
        let (program, arguments) = probe.split_first()?;
        assert_eq!(program, "/usr/bin/lro");
        let output = Command::new(lro()).args(arguments).envs(&variables).output().unwrap();
        Some((output.status.code(), String::from_utf8(output.stdout).unwrap()))
    };
    assert!(ask().is_none_or(|asked| asked == (Some(0), "ok\n".to_owned())), "{:?}", ask());
    gate.terminate(std::time::Duration::from_secs(120));
    assert!(ask().is_none_or(|asked| asked == (Some(1), String::new())), "{:?}", ask());
}

#[test]
fn what_is_deployed_runs() {
    let gateways = compose();
    assert_eq!(gateways.len(), 2);
    gateways.iter().take(1).for_each(run);
    run(&kubernetes());
}

#[test]
fn what_is_deployed_fits_the_image() {
    let image = read(&file("Dockerfile"));
    let line = |word: &str| image.lines().find_map(|line| line.strip_prefix(word)).unwrap().trim().to_owned();
    let user = kubernetes().user.unwrap();
    assert_eq!(line("USER "), format!("{user}:{user}"));
    assert_eq!(line("ENTRYPOINT "), r#"["/usr/bin/lro"]"#);
    assert_eq!((line("FROM ").as_str(), line("VOLUME ").as_str()), ("scratch", "/data"));
    let version = env!("CARGO_PKG_VERSION");
    for name in ["compose.yaml", "kubernetes.yaml"] {
        assert!(read(&file(name)).contains(&format!("lro-filter:{version}")), "{name}");
    }
}
