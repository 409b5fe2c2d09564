//! Each attack ends within its limit, the client gets the failure mode's answer, and nothing outside changes.

use std::time::{Duration, Instant};

use lro_host::filter::{Decision, Outcome};
use lro_host::settings::FailureMode;
use lro_tests::{TENANT, offloaded, processor_time};

use crate::attacks::{self, Attack};
use crate::support::{Place, request, result, together};

/// Processor time that a call may take beyond its time limit: two ticks of the epoch, the other of two calls, the host's own
/// work.
const SLACK: Duration = Duration::from_millis(1500);

// Run with --nocapture for the table.
#[test]
fn every_attack_ends_within_its_limit_and_changes_nothing() {
    let _together = together();
    let place = Place::new();
    println!("| attack | milliseconds | failure |\n|---|---|---|");
    for attack in attacks::all() {
        for failure in [FailureMode::Closed, FailureMode::Open, FailureMode::Truncate] {
            one(&place, attack, failure);
        }
    }
    let next = offloaded(place.filter.apply(&request(TENANT, "honest"), result().payload()));
    assert_eq!(std::fs::read_to_string(next.offload.path().join("honest.txt")).unwrap(), "the whole truth\n");
}

fn one(place: &Place, attack: &Attack, failure: FailureMode) {
    let before = place.walk();
    let (started, used) = (Instant::now(), processor_time());
    let (decision, answer) = place.attack(&attack.policy, &attack.limits, failure, attack.name);
    let (time, used) = (started.elapsed(), processor_time() - used);
    let told = decision.failure.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
    if failure == FailureMode::Closed {
        println!("| {} | {:.1} | {told} |", attack.name, time.as_secs_f64() * 1e3);
    }
    assert!(used < attack.limits.wall_time + SLACK, "{}: {used:?}", attack.name);
    let kind = decision.failure.as_ref().map(|error| error.kind());
    assert_eq!(kind, attack.failure, "{}: {told}", attack.name);
    assert!(told.len() < 1000 && !told.contains(char::is_control), "{}: {told:?}", attack.name);
    check_answer(attack, failure, &decision, &answer);

    let mut after = place.walk();
    if let Outcome::Offload(offloaded) = &decision.outcome {
        after.retain(|path, _| !path.starts_with(offloaded.offload.path()));
    }
    assert_eq!(after, before, "{}", attack.name);
}

/// The answer that the failure mode promises, as the client sees it.
fn check_answer(attack: &Attack, failure: FailureMode, decision: &Decision, answer: &str) {
    let name = attack.name;
    let json: serde_json::Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("{name}: {error}"));
    if attack.failure.is_none() {
        return assert!(answer.len() < 50_000, "{name}: {} bytes", answer.len());
    }
    match (failure, &decision.outcome) {
        (FailureMode::Closed, Outcome::Fail(_)) => assert_eq!(json["isError"], true, "{name}"),
        (FailureMode::Open, Outcome::Pass) => assert_eq!(answer.as_bytes(), &result().pass()[..], "{name}"),
        (FailureMode::Open, Outcome::Truncate { warning: Some(_), .. }) => {
            assert!(decision.inspect.is_some(), "{name}: nothing was decided, so nothing may be cut");
            assert_eq!(json["isError"], false, "{name}");
        }
        (FailureMode::Truncate, Outcome::Truncate { warning: Some(_), .. }) => {
            assert_eq!(json["isError"], false, "{name}");
        }
        (_, outcome) => panic!("{name}, {failure:?}: {outcome:?}"),
    }
}
