//! How much one tenant's attacks slow another tenant down.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lro_host::filter::{Filter, Outcome};
use lro_host::sandbox::Limits;
use lro_host::settings::FailureMode;
use lro_tests::{always, default_policy};

use crate::attacks;
use crate::modules::{component, inspects, load, with_instances};
use crate::support::{Place, alone, result, tight};

/// Calls of the neighbour in each of the two runs; more, until it has met enough attacks.
const CALLS: usize = 400;

/// Attacks that it meets at least, however slowly they come.
const ATTACKS_MIN: usize = 10;

/// Time limit of an attack: short, so that all of them come in turn.
const ATTACK_TIME: Duration = Duration::from_millis(50);

// Each call of the neighbour is answered as it should be; run with --nocapture for the figures.
#[test]
fn an_attack_does_not_stop_the_neighbours() {
    let _alone = alone();
    let place = Place::new();
    let neighbour = Filter { slot: default_policy().into(), ..place.filter.clone() };
    attacks::all();
    let without = latencies(&neighbour, || true);

    let (stopped, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let during = std::thread::scope(|scope| {
        let attacking = scope.spawn(|| {
            for attack in attacks::all().iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let limits = Limits { wall_time: ATTACK_TIME, ..attack.limits.clone() };
                place.attack(&attack.policy, &limits, FailureMode::Truncate, attack.name);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        // One that has panicked fails the test.
        let is_enough = || attacking.is_finished() || count.load(Ordering::Relaxed) >= ATTACKS_MIN;
        let during = latencies(&neighbour, is_enough);
        stopped.store(true, Ordering::Relaxed);
        during
    });
    println!("p50, p99 of a neighbour: {:?}, {:?}", at(&without, 50), at(&without, 99));
    println!("under {} attacks: {:?}, {:?}", count.into_inner(), at(&during, 50), at(&during, 99));
}

// Instances, tables and memories of a component come out of its own share, however many of it run.
#[test]
fn the_room_of_other_calls_cannot_be_taken() {
    let _alone = alone();
    let place = Place::new();
    let neighbour = Filter { slot: default_policy().into(), ..place.filter.clone() };
    let large = with_instances(&component(&inspects("(loop (br 0)) unreachable")), 3, Some(1));
    let policy = load(&large).unwrap();
    std::thread::scope(|scope| {
        let attack = || place.attack(&policy, &tight(), FailureMode::Closed, "").0;
        let attacks: Vec<_> = (0..100).map(|_| scope.spawn(attack)).collect();
        std::thread::sleep(tight().wall_time / 2);
        for _ in 0..10 {
            let decision = neighbour.apply(&lro_tests::request(always()), result().payload());
            assert!(matches!(decision.outcome, Outcome::Offload(_)), "{:?}", decision.failure);
        }
        for attack in attacks {
            let failure = attack.join().unwrap().failure.unwrap();
            assert_eq!(failure.kind(), "deadline", "{failure}");
        }
    });
}

/// Times of calls that each write files, in order of length: of [`CALLS`], and more until it is enough. None may fail.
fn latencies(neighbour: &Filter, is_enough: impl Fn() -> bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while times.len() < CALLS || !is_enough() {
        let request = lro_host::filter::Request { tenant: "other".to_owned(), ..lro_tests::request(always()) };
        let started = Instant::now();
        let decision = neighbour.apply(&request, result().payload());
        times.push(started.elapsed());
        assert!(matches!(decision.outcome, Outcome::Offload(_)), "{:?}", decision.failure);
        // Spread over enough attacks to meet each kind.
        std::thread::sleep(Duration::from_millis(5));
    }
    times.sort();
    times
}

fn at(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}
