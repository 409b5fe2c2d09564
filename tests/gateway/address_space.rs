//! The gateway and the command where address space is limited.

use serde_json::{Value, json};

use crate::scripted::{first_text, handle};
use crate::servers::{Gateway, paged};
use crate::support::{Process, words};
use crate::wire::{Wire, call, shake_hands};

/// What the log says where there is less room than usual.
const WARNING: &str = "little address space";

/// A command within so many KiB of address space.
fn within(kib: &str, command: &[String]) -> Vec<String> {
    let mut limited = words(&["sh", "-c", r#"ulimit -v "$0" && exec "$@""#, kib]);
    limited.extend(command.iter().cloned());
    limited
}

// A pool of instances needs terabytes; with less it is smaller, or there is none, and the answers are the same.
#[test]
fn results_are_offloaded_in_little_address_space() {
    // 400 GiB, as on kernels with addresses of 39 bits; a usual limit; and less than one memory of four GiB.
    for (kib, is_pooled) in [("419430400", true), ("8388608", false), ("2097152", false)] {
        let (gateway, server) = (Gateway::new(&[]), paged());
        let mut wire = Wire::start(&within(kib, &gateway.command(&server)), &gateway.variables(&server.variables));
        shake_hands(&mut wire);
        let rows = json!({"name": "rows", "arguments": {"count": 3000}});
        let descriptor: Value = serde_json::from_str(first_text(&wire.result(&call(1, &rows, false)))).unwrap();
        let question = json!({"handle": handle(&descriptor), "count": true});
        let asked = json!({"name": "lro_extract", "arguments": question});
        let answer = wire.result(&call(2, &asked, false));
        assert_eq!(answer["structuredContent"]["results"], json!([{"count": 3000}]), "{kib} KiB: {answer}");
        let ended = wire.end();
        assert!(ended.status.success(), "{kib} KiB: {}", ended.errors);
        let warnings: Vec<&str> = ended.errors.lines().filter(|line| line.contains(WARNING)).collect();
        let [warning] = warnings[..] else { panic!("{kib} KiB: {}", ended.errors) };
        assert!(warning.contains(&format!("pooled={is_pooled}")), "{kib} KiB: {warning}");
    }
}

// A command needs room for a few calls alone, and says nothing where it has that.
#[test]
fn commands_need_little_address_space() {
    let gateway = Gateway::new(&[]);
    let input = gateway.directory.path().join("input.json");
    std::fs::write(&input, json!((0..3000).map(|id| json!({"id": id})).collect::<Vec<_>>()).to_string()).unwrap();
    let variables = gateway.variables(&crate::support::Environment::new());
    let run = |kib: &str, arguments: &[&str]| {
        let mut command = words(&[&crate::support::lro(), "--log", "warn"]);
        command.extend(words(arguments));
        let ended = Process::start(&within(kib, &command), &variables).end();
        assert!(ended.status.success(), "{kib} KiB: {}", ended.errors);
        (ended.lines, ended.errors)
    };
    for (kib, warns) in [("unlimited", false), ("104857600", false), ("8388608", true), ("2097152", true)] {
        let offload = ["--mode", "always", "offload", "--json", input.to_str().unwrap()];
        let (lines, errors) = run(kib, &offload);
        assert_eq!(errors.contains(WARNING), warns, "{kib} KiB: {errors}");
        let report: Value = serde_json::from_str(&lines[0]).unwrap();
        let id = report["id"].as_str().unwrap();
        let (found, errors) = run(kib, &["extract", id, "--where", "id >= 2999"]);
        assert_eq!(found, [r#"{"id":2999}"#], "{kib} KiB: {errors}");
        let sum = run(kib, &["sql", id, "SELECT sum(id) AS sum FROM records"]).0;
        assert_eq!(sum, [r#"{"sum":4498500}"#], "{kib} KiB");
    }
}
