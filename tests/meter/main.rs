//! Metered modules and components, in wasmtime without epochs and without its own fuel.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod policies;

use std::num::NonZeroU64;

use lro_meter::{EXHAUSTED, Ending, Endings, MeterError, answering, metered};
use wasmtime::{Engine, Instance, Module, Store};

fn with_fuel(wat: &str, fuel: u64) -> Result<Vec<u8>, MeterError> {
    metered(&wat::parse_str(wat).unwrap(), NonZeroU64::new(fuel).unwrap())
}

fn instance(wat: &str, fuel: u64) -> (Store<()>, Instance) {
    let engine = Engine::default();
    let module = Module::new(&engine, with_fuel(wat, fuel).unwrap()).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    (store, instance)
}

/// What a function returns for an argument; `None` when its fuel is used up.
fn call(wat: &str, fuel: u64, function: &str, argument: i32) -> Option<i32> {
    let (mut store, instance) = instance(wat, fuel);
    called(&mut store, &instance, function, argument)
}

fn called(store: &mut Store<()>, instance: &Instance, function: &str, argument: i32) -> Option<i32> {
    let function = instance.get_typed_func::<i32, i32>(&mut *store, function).unwrap();
    match function.call(&mut *store, argument) {
        Ok(result) => Some(result),
        Err(error) => {
            let trace = format!("{error:?}");
            assert!(trace.contains(EXHAUSTED), "{trace}");
            None
        }
    }
}

/// Every way to go on for long: rounds of loops with values on the stack, calls, recursion, and instructions that move memory.
const WAYS: &str = r#"(module
  (memory 16)
  (table 8 funcref)
  (elem (i32.const 0) $recursive)
  (global $other (mut i32) (i32.const 7))
  (func (export "count") (param $n i32) (result i32)
    (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (global.get $other)))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    local.get $sum)
  (func (export "carries") (param $n i32) (result i32)
    (i32.const 0)
    (loop $again (param i32) (result i32)
      (i32.add (i32.const 1))
      (if (param i32) (result i32) (i32.ge_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0))
        (then (br $again)))))
  (func $recursive (export "recursive") (param $n i32) (result i32)
    (if (result i32) (i32.eqz (local.get $n))
      (then (i32.const 0))
      (else (i32.add (i32.const 1) (call $recursive (i32.sub (local.get $n) (i32.const 1)))))))
  (func (export "indirect") (param $n i32) (result i32)
    (call_indirect (param i32) (result i32) (local.get $n) (i32.const 0)))
  (func (export "tail") (param $n i32) (result i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 5))))
    (return_call $tail (i32.sub (local.get $n) (i32.const 1))))
  (func $tail (param $n i32) (result i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 5))))
    (return_call $tail (i32.sub (local.get $n) (i32.const 1))))
  (func (export "moves") (param $n i32) (result i32)
    (memory.fill (i32.const 0) (i32.const 1) (local.get $n))
    (memory.copy (i32.const 0) (i32.const 1) (i32.const 8))
    (i32.load8_u (i32.const 5)))
  (func (export "i#entered") (param $n i32) (result i32)
    (loop $again (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $n))
)"#;

#[test]
fn what_ends_in_time_is_as_before() {
    let fuel = 1_000_000;
    assert_eq!(call(WAYS, fuel, "count", 1_000), Some(7_000));
    assert_eq!(call(WAYS, fuel, "carries", 1_000), Some(1_001));
    assert_eq!(call(WAYS, fuel, "recursive", 1_000), Some(1_000));
    assert_eq!(call(WAYS, fuel, "indirect", 1_000), Some(1_000));
    assert_eq!(call(WAYS, fuel, "tail", 1_000), Some(5));
    assert_eq!(call(WAYS, fuel, "moves", 1_000), Some(1));
}

#[test]
fn what_goes_on_is_ended() {
    for (function, argument) in [
        ("count", 0),
        ("carries", i32::MAX),
        ("recursive", 100_000),
        ("indirect", 100_000),
        ("tail", -1),
        ("moves", 1 << 20),
    ] {
        assert_eq!(call(WAYS, 20_000, function, argument), None, "{function}");
    }
}

/// The least fuel with which a call comes to its end.
fn needed(function: &str, argument: i32) -> u64 {
    let (mut low, mut high) = (1, 1 << 24);
    while low < high {
        let middle = (low + high) / 2;
        match call(WAYS, middle, function, argument) {
            Some(_) => high = middle,
            None => low = middle + 1,
        }
    }
    low
}

#[test]
fn fuel_counts_instructions() {
    assert_eq!(needed("count", 2) - needed("count", 1), 9, "instructions of a round");
    assert_eq!(needed("count", 100) - needed("count", 1), 9 * 99);
    assert_eq!(
        needed("recursive", 11) - needed("recursive", 1),
        needed("recursive", 2) * 10 - needed("recursive", 1) * 10
    );
    assert_eq!(needed("moves", 1 << 14) - needed("moves", 0), 1 << (14 - lro_meter::BULK_SHIFT));
}

#[test]
fn a_call_of_an_interface_begins_with_all_of_the_fuel() {
    let (mut store, instance) = instance(WAYS, 10_000);
    for _ in 0..100 {
        assert_eq!(called(&mut store, &instance, "i#entered", 1_000), Some(0));
    }
    assert_eq!(called(&mut store, &instance, "i#entered", 1_000_000), None);
    assert_eq!(called(&mut store, &instance, "i#entered", 1), Some(0), "and so does the next");
    // Any other export goes on with what is left.
    let ended = (0..100).filter(|_| called(&mut store, &instance, "count", 100).is_none()).count();
    assert_eq!(ended, 89);
}

#[test]
fn start_functions_count_too() {
    let endless = r#"(module (func $start (loop $again (br $again))) (start $start))"#;
    let engine = Engine::default();
    let module = Module::new(&engine, with_fuel(endless, 1_000).unwrap()).unwrap();
    let error = Instance::new(Store::new(&engine, ()), &module, &[]).unwrap_err();
    assert!(format!("{error:?}").contains(EXHAUSTED), "{error:?}");
}

#[test]
fn components_are_metered_inside() {
    let one = |name: &str| format!(r#"(core module (func (export "{name}") (loop $again (br $again))))"#);
    let nested = format!("(component (component {}) {})", one("a#b"), one("plain"));
    let component = with_fuel(&nested, 1_000).unwrap();
    let has = |text: &str| component.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
    assert_eq!((has(EXHAUSTED), has("a#b"), has("plain")), (2, 1, 1));
    let two = format!("(component {} (component {}))", one("a#b"), one("c#d"));
    assert!(matches!(with_fuel(&two, 1_000), Err(MeterError::Modules)));
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let fuel = NonZeroU64::MIN;
    assert!(matches!(metered(b"\0asm", fuel), Err(MeterError::Invalid(_))));
    assert!(matches!(metered(b"no wasm", fuel), Err(MeterError::Invalid(_))));
    assert!(matches!(with_fuel("(module (memory i64 1) (func))", 1), Err(MeterError::Wide)));
    assert!(matches!(with_fuel("(module (table i64 1 funcref) (func))", 1), Err(MeterError::Wide)));
    let deep = format!("{}{}", "(component ".repeat(40), ")".repeat(40));
    assert!(matches!(with_fuel(&deep, 1), Err(MeterError::Levels)));
}

#[test]
fn what_can_only_trap_is_refused() {
    let ending = Ending { case: "limit", text: "the fuel is used up" };
    let refused = |component: &[u8]| {
        let endings = Endings { exhausted: ending, unreachable: ending };
        match answering(component, NonZeroU64::MIN, &endings) {
            Err(MeterError::Answer(reason)) => reason,
            other => panic!("{other:?}"),
        }
    };
    for without in ["(module (func))", "(component)"] {
        assert_eq!(refused(&wat::parse_str(without).unwrap()), "no function of it has such errors");
    }
    assert_eq!(refused(b"\0asm"), "its type cannot be read");
}
