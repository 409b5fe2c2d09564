//! The cost of redaction.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use lro_host::policy::Policy;
use lro_host::sandbox::{Cost, Limits, Payload, Verdict};
use lro_tests::{call_of, default_policy, request, settings, structured};
use tempfile::TempDir;

use crate::redacting_policy;

const RECORDS: u32 = 100_000;

/// Runs of each policy, alternating.
const RUNS: usize = 3;

fn document() -> String {
    let mut text = String::from("{\"people\":[");
    for id in 0..RECORDS {
        let comma = if id > 0 { "," } else { "" };
        let _ = write!(
            text,
            r#"{comma}{{"id":{id},"name":"Person {id}","score":0.{:06},"active":{},"note":"{}","tags":["red","p0"],"meta":{{"owner":"team-{}","mail":"person.{id}@example.com"}}}}"#,
            id * 7919 % 1_000_000,
            id % 2 == 0,
            "lorem ipsum dolor sit amet ".repeat((id % 4) as usize),
            id % 12,
        );
    }
    text + "]}"
}

fn costs(policy: &Policy, payload: &Arc<Payload>) -> (Cost, Cost) {
    let (call, limits) = (call_of(request(settings())), Limits::default());
    let (verdict, inspect) = policy.prepared().inspect(&limits, &call, payload).unwrap();
    let Verdict::Offload(plan) = verdict else { panic!("{verdict:?}") };
    let directory = TempDir::new().unwrap();
    let (_, write) = policy.prepared().write(&limits, &call, payload, &plan, directory.path()).unwrap();
    (inspect, write)
}

// Its memory is bounded; its time is printed beside that of the default policy.
#[test]
fn a_hundred_thousand_records_beside_the_default_policy() {
    let document = document();
    println!("{RECORDS} records, {} bytes", document.len());
    let payload = structured(document);
    let mut least = [Duration::MAX; 2];
    for _ in 0..RUNS {
        for (least, (name, policy)) in
            least.iter_mut().zip([("default", default_policy()), ("redact", redacting_policy())])
        {
            let (inspect, write) = costs(&policy, &payload);
            println!(
                "{name}: inspect {:.1?}, write {:.1?}, memory {} bytes",
                inspect.time, write.time, write.memory_bytes
            );
            assert!(inspect.memory_bytes.max(write.memory_bytes) < 8 << 20, "{name}");
            *least = (inspect.time + write.time).min(*least);
        }
    }
    println!("redact takes {:.1} times as long", least[1].as_secs_f64() / least[0].as_secs_f64());
}
