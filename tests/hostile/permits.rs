//! The permits that all calls of a process share, and the threads that run them.

use std::sync::Arc;
use std::time::Duration;

use lro_host::Job;
use lro_host::extract::{Budget, ExtractError, Extractor, Jq, PART_BYTES_MIN, Question};
use lro_host::filter::{Decision, Filter, FilterError, Outcome};
use lro_host::policy::{Admission, CompileCache, DEFAULT_POLICY, LoadOptions, Policy, Slot, SlotSettings};
use lro_host::sandbox::{CONCURRENT_CALLS_MAX, CONCURRENT_QUESTIONS_MAX, CallError, Limits, STOCK_MAX, Sandbox};
use lro_host::settings::FailureMode;
use lro_tests::{TENANT, component, filter_with, offloaded, patient, settings, synthetic};
use tempfile::TempDir;

use crate::support::{alone, request, result};

/// Longest wait for what should come: more than a hundred threads share the processors with it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time limit of what is to run until it is given up.
const ENDLESS: Duration = Duration::from_secs(3_600);

/// A separate engine, so that no other test holds its permits, and the test policies in it.
struct Engine {
    sandbox: Sandbox,
    policy: Policy,
    root: TempDir,
}

impl Engine {
    fn new() -> Self {
        let sandbox = Sandbox::new().unwrap();
        let bytes = component("lro_test_policies.wasm");
        let policy = Policy::from_bytes(&sandbox, &bytes, &patient()).unwrap();
        Self { sandbox, policy, root: TempDir::new().unwrap() }
    }

    /// The default policy in it.
    fn default_policy(&self) -> Policy {
        Policy::from_bytes(&self.sandbox, DEFAULT_POLICY, &patient()).unwrap()
    }

    /// A filter whose calls wait for a permit for this time, and run for as long as they like.
    fn filter(&self, wait: Duration) -> Filter {
        let calls = 2 * CONCURRENT_CALLS_MAX;
        let admission = Admission { calls, ..Admission::default() };
        let slot = Slot::new(Some(self.policy.clone()), SlotSettings { admission, ..SlotSettings::default() });
        let limits = Limits { wait, wall_time: ENDLESS, ..Limits::default() };
        Filter { slot: Arc::new(slot), limits, ..filter_with(self.policy.clone(), &self.root.path().join("store")) }
    }

    /// Calls that never end, one for each permit.
    fn full(&self) -> Vec<Job<Decision>> {
        let filter = self.filter(PATIENCE);
        let call = |_| filter.job(request("hostile", "inspect-loop"), Arc::clone(result().payload()));
        let mut jobs: Vec<_> = (0..CONCURRENT_CALLS_MAX).map(call).collect();
        jobs.iter_mut().for_each(|job| assert!(job.begin().is_none()));
        jobs
    }
}

// What gets no permit waits, and is then truncated or refused; it never passes unseen.
#[test]
fn a_call_without_a_permit_does_not_pass() {
    let _alone = alone();
    let engine = Engine::new();
    let mut all = engine.full();
    for failure in [FailureMode::Open, FailureMode::Truncate, FailureMode::Closed] {
        let filter = Filter { failure, ..engine.filter(Duration::from_millis(50)) };
        let decision = filter.apply(&request(TENANT, "honest"), result().payload());
        let error = decision.failure.unwrap();
        assert!(matches!(error, FilterError::Call(CallError::Busy(CONCURRENT_CALLS_MAX))), "{error}");
        match (failure, decision.outcome) {
            (FailureMode::Closed, Outcome::Fail(text)) => assert!(text.contains("try again"), "{text}"),
            (FailureMode::Open | FailureMode::Truncate, Outcome::Truncate { warning: Some(text), .. }) => {
                assert!(text.contains("could not be looked at") && text.contains("try again"), "{text}");
            }
            (_, outcome) => panic!("{failure:?}: {outcome:?}"),
        }
    }
    // One that waits longer gets the permit of a call that is given up.
    let filter = engine.filter(PATIENCE);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| filter.apply(&request(TENANT, "honest"), result().payload()));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        drop(all.pop());
        offloaded(waiting.join().unwrap());
    });
}

// A job gives its thread back at once, whatever its policy does, and a small result is decided about where it is.
#[test]
fn a_job_neither_blocks_nor_stays() {
    let _alone = alone();
    let engine = Engine::new();
    let (filter, payload) = (engine.filter(PATIENCE), result().payload().clone());
    let settings = Arc::new(settings());
    let small = || lro_host::filter::Request { settings: Arc::clone(&settings), ..request(TENANT, "") };
    let passes = Filter { slot: engine.default_policy().into(), ..filter.clone() };
    // A tick may come while it runs.
    let begun = (0..100).find_map(|_| passes.job(small(), Arc::clone(&payload)).begin());
    assert!(matches!(begun.unwrap().outcome, Outcome::Pass));
    // What is to be written is pending before that.
    let mut job = filter.job(request(TENANT, "honest"), Arc::clone(&payload));
    assert!(job.begin().is_none());
    let store = filter.store.as_ref().unwrap();
    assert!(store.list().is_empty());
    offloaded(job.finish());
    assert_eq!(store.list().len(), 1);
    // On a thread that is the only one, others go on beside policies that never end, and those that are given up do end.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let endless = ["inspect-loop", "loop"].map(|behaviour| {
            let (filter, payload) = (filter.clone(), Arc::clone(&payload));
            tokio::spawn(async move { filter.apply_async(request("hostile", behaviour), payload).await })
        });
        for _ in 0..10 {
            offloaded(filter.apply_async(request(TENANT, "honest"), Arc::clone(&payload)).await);
        }
        for endless in endless {
            assert!(!endless.is_finished());
            endless.abort();
            assert!(endless.await.unwrap_err().is_cancelled());
        }
    });
    // Waits for the threads, which is for the calls.
    drop(runtime);
    assert!(std::fs::read_dir(store.root().join("hostile")).map_or(0, Iterator::count) == 0, "what a call left");
}

// What policies keep in stock takes no permit of calls, however many they are.
#[test]
fn stock_takes_no_room() {
    let _alone = alone();
    let engine = Engine::new();
    let cache = CompileCache::open(engine.root.path().join("compiled")).unwrap();
    let options = LoadOptions { cache: Some(cache), ..patient() };
    let bytes = component("lro_test_policies.wasm");
    let load = |_| Policy::from_bytes(&engine.sandbox, &bytes, &options).unwrap();
    let filter = engine.filter(Duration::from_millis(50));
    let many: Vec<Filter> = (0..300).map(|number| Filter { slot: load(number).into(), ..filter.clone() }).collect();
    for stocked in &many {
        stocked.restock();
        let decision = stocked.apply(&request(TENANT, "inspect-directories"), result().payload());
        assert!(matches!(decision.outcome, Outcome::Reject(_)), "{:?}", decision.failure);
        stocked.restock();
    }
    assert!(many.len() > STOCK_MAX as usize);
    // Every permit is still there for a call.
    let full = engine.full();
    assert_eq!(full.len(), CONCURRENT_CALLS_MAX as usize);
}

// Half of the permits are kept for results, and questions that are given up end.
#[test]
fn questions_leave_half_of_the_permits() {
    let _alone = alone();
    let engine = Engine::new();
    let filter = engine.filter(Duration::from_millis(50));
    let items = vec![r#"{"a":1}"#; 200].join(",");
    let records = lro_tests::structured(format!(r#"{{"items":[{items}]}}"#));
    let default = Filter { slot: engine.default_policy().into(), ..filter.clone() };
    let offload = offloaded(default.apply(&lro_tests::request(lro_tests::always()), &records)).offload;
    let limits = Limits { wait: Duration::from_millis(50), wall_time: ENDLESS, ..Limits::default() };
    let extractor = Extractor::new(&engine.sandbox, None, limits).unwrap();
    let question = |filter: &str| Question::Jq(Jq { filter: filter.to_owned(), ..Jq::default() });
    let ask = || extractor.ask(&offload, None, &question(".a"), Budget::default());
    assert_eq!(ask().unwrap().total, 200);

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let too_many = 8;
    let endless: Vec<_> = (0..CONCURRENT_QUESTIONS_MAX as usize + too_many)
        .map(|_| {
            let (extractor, offload, question) = (extractor.clone(), offload.clone(), question("last(repeat(1))"));
            runtime.spawn(async move { extractor.ask_async(offload, None, question, Budget::default()).await })
        })
        .collect();
    let busy = ExtractError::Call(CallError::Busy(CONCURRENT_QUESTIONS_MAX)).to_string();
    let refused = || endless.iter().filter(|question| question.is_finished()).count();
    until(|| refused() == too_many);
    assert_eq!(ask().unwrap_err().to_string(), busy);
    for _ in 0..10 {
        offloaded(filter.apply(&request(TENANT, "honest"), result().payload()));
    }
    assert_eq!(refused(), too_many);
    endless.iter().for_each(tokio::task::JoinHandle::abort);
    until(|| ask().is_ok_and(|answer| answer.total == 200));
}

// Several instances answer a question about a large file while processors have nothing else to run, and no longer.
#[test]
fn further_instances_run_on_free_processors_alone() {
    let _alone = alone();
    let engine = Engine::new();
    let filter = engine.filter(PATIENCE);
    let default = Filter { slot: engine.default_policy().into(), ..filter.clone() };
    let records = lro_tests::text(synthetic::payload(100_000));
    let offload = offloaded(default.apply(&lro_tests::request(lro_tests::always()), &records)).offload;
    assert!(offload.record().files[0].bytes > 2 * PART_BYTES_MIN);
    let limits = Limits { wall_time: ENDLESS, ..Limits::default() };
    let extractor = Extractor::new(&engine.sandbox, None, limits).unwrap();
    let question = Question::Query(serde_json::from_str(r#"{"group": "category"}"#).unwrap());
    let memory = |extractor: &Extractor| {
        let asked = extractor.ask_with_cost(&offload, None, &question, Budget::default());
        asked.unwrap().1.memory_bytes
    };
    let one = memory(&extractor.clone().with_instances(1));
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!(memory(&extractor) > one, processors > 1);
    // Begun, and not given up, they count as running.
    let mut busy: Vec<_> = (1..processors)
        .map(|_| filter.job(request("hostile", "inspect-loop"), Arc::clone(result().payload())))
        .collect();
    busy.iter_mut().for_each(|job| assert!(job.begin().is_none()));
    assert_eq!(memory(&extractor), one);
    drop(busy);
    assert_eq!(memory(&extractor) > one, processors > 1);
}

/// Waits until something is so. Panics when it never is.
fn until(is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
}
