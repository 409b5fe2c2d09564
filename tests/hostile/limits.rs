//! Each limit by itself: exactly as much is allowed, and no more.

use std::time::Duration;

use lro_host::filter::{Filter, FilterError, Outcome};
use lro_host::policy::{self, Policy};
use lro_host::sandbox::{CallError, Limits, PolicyError, Quota, Sandbox, Written};
use lro_tests::{TENANT, filter_with, hostile_policy, patient, target};
use tempfile::TempDir;

use crate::modules::{component, inspects, load, with_instances};
use crate::support::{Place, attempts, request, result, tight, together, write};

/// As [`write`], in a directory of its own.
fn alone_in(limits: &Limits, behaviour: &str) -> Result<Written, CallError> {
    write(&hostile_policy(), limits, behaviour, TempDir::new().unwrap().path())
}

fn quota(limits: &Limits, behaviour: &str) -> Quota {
    match alone_in(limits, behaviour) {
        Err(CallError::Quota(quota)) => quota,
        other => panic!("{behaviour}: {other:?}"),
    }
}

// Names that a terminal, a shell or another system would act upon never reach the disk.
#[test]
fn only_safe_names_are_created() {
    let _together = together();
    let directory = TempDir::new().unwrap();
    let written = write(&hostile_policy(), &Limits::default(), "names", directory.path()).unwrap();
    let attempts = attempts(&written);
    assert_eq!(attempts.len(), 30);
    for (what, index, outcome) in &attempts {
        let expected = match index.as_str() {
            // 128 bytes, 129, and half a million.
            "12" => "ok",
            "13" | "14" => "name-too-long",
            _ => "not-permitted",
        };
        assert_eq!(outcome, expected, "{what} {index}");
    }
    let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["own"]);
}

#[test]
fn a_name_is_as_long_as_its_limit() {
    let _together = together();
    let limits = |name_bytes| Limits { name_bytes, ..tight() };
    alone_in(&limits("honest.txt".len()), "honest").unwrap();
    let refused = alone_in(&limits("honest.txt".len() - 1), "honest").unwrap_err();
    assert!(matches!(&refused, CallError::Policy(PolicyError::Io(text)) if text == "name-too-long"), "{refused}");
}

// Every way to hold a descriptor counts, and one that is given back does not.
#[test]
fn open_files_are_counted() {
    let _together = together();
    let limits = Limits { open_files: 8, ..tight() };
    // The first two hold the directory too.
    for (behaviour, most) in [("hold-files", 7), ("hold-listings", 7), ("hold-directories", 8)] {
        alone_in(&limits, &format!("{behaviour}:{most}")).unwrap();
        let error = quota(&limits, &format!("{behaviour}:{}", most + 1));
        assert_eq!(error, Quota::OpenFiles(8), "{behaviour}");
        assert!(error.to_string().contains("limit open-files"));
    }
    alone_in(&Limits { open_files: 3, ..tight() }, "open-and-close:1000").unwrap();
}

// A file is no longer than what was counted for it, so that nobody has to read more than that.
#[test]
fn a_gap_counts_as_written() {
    let _together = together();
    let limits = |written_bytes| Limits { written_bytes, ..tight() };
    alone_in(&limits((3 << 20) + 1), "sparse:3").unwrap();
    assert_eq!(quota(&limits(3 << 20), "sparse:3"), Quota::WrittenBytes(3 << 20));
    assert_eq!(quota(&limits((7 * 3) << 20), "sparse-files:3"), Quota::WrittenBytes((7 * 3) << 20));
}

#[test]
fn files_are_counted_when_they_are_created() {
    let _together = together();
    let limits = Limits { files: 5, ..tight() };
    for behaviour in ["many-files", "create-and-remove"] {
        alone_in(&limits, &format!("{behaviour}:5")).unwrap();
        assert_eq!(quota(&limits, &format!("{behaviour}:6")), Quota::Files(5), "{behaviour}");
    }
}

// A policy has no log. What it can have logged, notes and errors, is short and plain.
#[test]
fn text_for_the_log_is_short_and_plain() {
    let _together = together();
    let limits = Limits { log_bytes: 200, ..tight() };
    let plain = |text: &str| assert!(text.len() <= 203 && !text.contains(char::is_control), "{text:?}");
    let notes = alone_in(&limits, "rude-notes").unwrap().descriptor.notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    notes.iter().for_each(|note| plain(note));
    assert!(notes[0].contains("ERROR forged") && notes[0].starts_with('\u{fffd}'), "{notes:?}");

    let notes = alone_in(&limits, "many-notes:500").unwrap().descriptor.notes;
    assert_eq!(notes.len(), 1);
    plain(&notes[0]);
    assert!(notes[0].starts_with("xxx") && notes[0].ends_with('…'));

    let Err(CallError::Policy(PolicyError::Other(text))) = alone_in(&limits, "rude-error:1000") else { panic!() };
    plain(&text);
    assert!(text.ends_with('…'));

    let place = Place::new();
    let decision = place.filter.apply(&request(TENANT, "rude-name"), result().payload());
    let error = decision.failure.unwrap().to_string();
    assert!(error.contains("not allowed") && !error.contains(char::is_control), "{error:?}");
}

// Advice goes to the model as a descriptor does, and is no longer than one.
#[test]
fn advice_is_no_longer_than_a_descriptor() {
    let _together = together();
    let place = Place::new();
    let most = request(TENANT, "").settings.descriptor_limit as usize;
    for (asked, told) in [(most, most), (most + 1, most + 1), (900_000, most + 1)] {
        let decision = place.filter.apply(&request(TENANT, &format!("inspect-advice:{asked}")), result().payload());
        let Outcome::Reject(advice) = decision.outcome else { panic!("{:?}", decision.failure) };
        assert_eq!((advice.chars().count(), advice.ends_with('…')), (told, asked > most));
    }
}

// Tables, and all memories together.
#[test]
fn tables_and_memories_are_bounded() {
    let _together = together();
    let place = Place::new();
    let inspect = |component: &[u8], limits: Limits| {
        let filter = Filter { slot: load(component).unwrap().into(), limits, ..place.filter.clone() };
        match filter.inspect(&request(TENANT, ""), result().payload()) {
            Err(FilterError::Call(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    // Grows its table by nine elements, and traps as it must if it got them.
    let grows = component(&format!(
        "(table $t 1 funcref) {}",
        inspects("(drop (table.grow $t (ref.null func) (i32.const 9))) unreachable")
    ));
    let limits = |table_elements| Limits { table_elements, ..tight() };
    assert!(matches!(inspect(&grows, limits(10)), CallError::Trap(_)));
    assert!(matches!(inspect(&grows, limits(9)), CallError::Table(9)));
    let begins = component("(table 1000 funcref)");
    assert!(matches!(inspect(&begins, limits(999)), CallError::Table(999)));

    let plain = component("");
    assert!(matches!(inspect(&with_instances(&plain, 3, Some(32)), tight()), CallError::Trap(_)), "6 MiB more");
    assert!(matches!(inspect(&with_instances(&plain, 3, Some(48)), tight()), CallError::Memory(_)), "9 MiB more");
    let few = |instances| Limits { instances, ..tight() };
    assert!(matches!(inspect(&with_instances(&plain, 7, None), few(8)), CallError::Trap(_)));
    assert!(matches!(inspect(&with_instances(&plain, 8, None), few(8)), CallError::Instances(8)));
}

// What would take the room of other calls is not even loaded.
#[test]
fn a_component_of_too_many_things_is_not_loaded() {
    let _together = together();
    let plain = component("");
    load(&with_instances(&plain, 15, None)).unwrap();
    load(&with_instances(&plain, 3, Some(1))).unwrap();
    for (what, refused) in [
        ("core module instances", with_instances(&plain, 16, None)),
        ("memories", with_instances(&plain, 4, Some(1))),
        ("table", component("(table 100001 funcref)")),
        ("memories", component("(memory 1) (memory 1) (memory 1)")),
        ("memory", component("(memory (export \"memory\") 16385)")),
    ] {
        let error = load(&refused).map(drop).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
}

// A value that is nested by references is as deep as its list is long, and whoever walks it needs the stack for that.
#[test]
fn a_condition_of_many_steps_is_refused() {
    let _together = together();
    let place = Place::new();
    for depth in [60_000, 256] {
        let decision = place.filter.apply(&request(TENANT, &format!("lie-depth:{depth}")), result().payload());
        let error = decision.failure.unwrap();
        assert!(matches!(&error, FilterError::Answer(text) if text.contains("stored query")), "{depth}: {error}");
    }
    // A test and 255 negations are as many steps as are allowed.
    let decision = place.filter.apply(&request(TENANT, "lie-depth:255"), result().payload());
    assert!(decision.failure.is_none(), "{:?}", decision.failure);
}

// The same call needs the same fuel, whatever else the machine does.
#[test]
fn fuel_is_the_same_every_time() {
    let _together = together();
    let file = target().join("wasm32-unknown-unknown/component/lro_test_policies.wasm");
    let counting = Sandbox::with_fuel().unwrap();
    let policy = Policy::from_file(&counting, &file, &patient()).unwrap();
    let run = |fuel: Option<u64>, behaviour: &str| {
        write(&policy, &Limits { fuel, ..tight() }, behaviour, TempDir::new().unwrap().path())
    };
    let (mut too_little, mut enough) = (0, 100_000_000);
    run(Some(enough), "honest").unwrap();
    while enough - too_little > 1 {
        let fuel = u64::midpoint(too_little, enough);
        match run(Some(fuel), "honest") {
            Ok(_) => enough = fuel,
            Err(CallError::Fuel(limit)) => too_little = limit,
            Err(other) => panic!("{other}"),
        }
    }
    for _ in 0..20 {
        run(Some(enough), "honest").unwrap();
        let error = run(Some(too_little), "honest").unwrap_err();
        assert!(matches!(error, CallError::Fuel(limit) if limit == too_little), "{error}");
    }
    run(None, "honest").unwrap();
    let error = run(Some(1_000_000), "loop").unwrap_err();
    assert!(error.to_string().contains("limit fuel"), "{error}");
    assert!(matches!(run(None, "loop"), Err(CallError::Deadline(_))), "without a limit the clock still ends it");

    let uncounted = alone_in(&Limits { fuel: Some(enough), ..tight() }, "honest").unwrap_err();
    assert!(matches!(uncounted, CallError::FuelDisabled), "{uncounted}");
}

// An instance made in advance is as fresh as another, and has the limits of its own call.
#[test]
fn an_instance_in_stock_keeps_nothing() {
    let _together = together();
    let root = TempDir::new().unwrap();
    let filter = Filter { limits: tight(), ..filter_with(hostile_policy(), root.path()) };
    for _ in 0..50 {
        filter.restock();
        let decision = filter.apply(&request(TENANT, "inspect-remember"), result().payload());
        let Outcome::Reject(calls) = decision.outcome else { panic!("{:?}", decision.failure) };
        assert_eq!(calls, r#"{"calls":1}"#);
    }
    filter.restock();
    let short = Filter { limits: Limits { wall_time: Duration::from_millis(30), ..tight() }, ..filter.clone() };
    let error = short.apply(&request(TENANT, "inspect-loop"), result().payload()).failure.unwrap();
    assert!(matches!(error, FilterError::Call(CallError::Deadline(limit)) if limit == short.limits.wall_time));
    // Its time begins when it is taken.
    filter.restock();
    std::thread::sleep(tight().wall_time * 2);
    let decision = filter.apply(&request(TENANT, "inspect-remember"), result().payload());
    assert!(matches!(decision.outcome, Outcome::Reject(_)), "{:?}", decision.failure);
}

// The clock runs whatever else is configured.
#[test]
fn every_configuration_has_a_clock() {
    let _together = together();
    let file = target().join("wasm32-unknown-unknown/component/lro_test_policies.wasm");
    let limits = |fuel| Limits { fuel, ..tight() };
    for (sandbox, fuel) in [
        (Sandbox::new().unwrap(), None),
        (Sandbox::with_fuel().unwrap(), None),
        (Sandbox::with_fuel().unwrap(), Some(u64::MAX)),
    ] {
        let policy = Policy::from_file(&sandbox, &file, &patient()).unwrap();
        // The engine goes on with the policy alone.
        drop(sandbox);
        for more in [
            limits(fuel),
            Limits { memory_bytes: usize::MAX, ..limits(fuel) },
            Limits { crossing_bytes: usize::MAX, written_bytes: u64::MAX, ..limits(fuel) },
        ] {
            let error = write(&policy, &more, "loop", TempDir::new().unwrap().path()).unwrap_err();
            assert!(matches!(error, CallError::Deadline(limit) if limit == more.wall_time), "{more:?}: {error}");
        }
    }
}

// What never starts is never loaded.
#[test]
fn a_policy_that_loops_at_its_start_is_refused() {
    let _together = together();
    let error = load(&component("(func $f (loop (br 0))) (start $f)")).unwrap_err();
    assert!(matches!(error, policy::LoadError::Start(_)), "{error}");
}
