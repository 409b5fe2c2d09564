//! Questions about a large file, which several instances answer together.

use std::fs;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Mutex, OnceLock};
use std::thread::available_parallelism;

use lro_gateway::settings::QueryLimits;
use lro_host::extract::{Answer, Budget, ExtractError, Extractor, Jq, PART_BYTES_MIN, Question};
use lro_host::policy::CompileCache;
use lro_host::sandbox::{CallError, Cost, Limits, Sandbox};
use lro_host::store::{Offload, StoreError};
use lro_tests::{filter, offloaded, request, settings, synthetic, text};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Records in two parts: 20 MB.
const RECORDS: usize = 100_000;

struct Large {
    offload: Offload,
    sandbox: Sandbox,
    root: TempDir,
}

impl Large {
    /// In a separate sandbox, in which nothing else keeps a processor busy.
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let payload = text(synthetic::payload(RECORDS));
        let offload = offloaded(filter(&root.path().join("store")).apply(&request(settings()), &payload)).offload;
        assert!(offload.record().files[0].bytes > 2 * PART_BYTES_MIN);
        Self { offload, sandbox: Sandbox::new().unwrap(), root }
    }

    fn extractor(&self, limits: &QueryLimits) -> Extractor {
        let cache = CompileCache::open(self.root.path().join("compiled")).unwrap();
        let extractor = Extractor::new(&self.sandbox, Some(cache), limits.into()).unwrap();
        extractor.with_instances(limits.instances.get())
    }

    fn ask(&self, instances: u32, question: &Question, budget: Budget) -> Result<(Answer, Cost), ExtractError> {
        static EXTRACTOR: OnceLock<Extractor> = OnceLock::new();
        let extractor = EXTRACTOR.get_or_init(|| self.extractor(&QueryLimits::default())).clone();
        extractor.with_instances(instances).ask_with_cost(&self.offload, None, question, budget)
    }
}

/// One at a time: what one test asks about would keep processors busy in another.
fn large() -> std::sync::MutexGuard<'static, Large> {
    static LARGE: OnceLock<Mutex<Large>> = OnceLock::new();
    LARGE.get_or_init(|| Mutex::new(Large::new())).lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn query(query: Value) -> Question {
    Question::Query(serde_json::from_value(query).unwrap())
}

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), ..Jq::default() })
}

#[test]
fn several_instances_answer_as_one_does() {
    let large = large();
    let both = "category == 'billing' and score > 0.9";
    let taken_apart = [
        json!({"where": both, "count": true}),
        json!({"where": both, "select": ["id", "title"]}),
        json!({"where": both, "offset": 600, "limit": 7}),
        json!({"where": "note is null", "limit": 1}),
        json!({"where": "score > 2"}),
        json!({"group": "category", "sort": "-count"}),
        json!({"group": {"by": ["category", "active"], "aggregates": ["sum:score", "avg:score", "min:id", "max:meta.lat", "count:note"]}}),
        json!({"group": {"by": ["meta.tags"], "aggregates": ["avg:meta.lat"]}, "sort": "-avg_meta.lat", "limit": 5}),
        json!({"group": "title", "count": true}),
        json!({"group": "title", "sample": 9}),
        json!({"sort": "-score", "select": ["score"], "limit": 10}),
        json!({"sort": ["category", "-meta.lat"], "offset": 4000, "limit": 20}),
        json!({"where": "nowhere == 1"}),
    ];
    let as_a_whole = [
        json!({"select": "category", "distinct": true}),
        json!({"sample": 5, "select": "id"}),
        json!({"where": {"active": true}, "offset": 20_000}),
        json!({"where": "id exists and missing == 1"}),
    ];
    let programs = [
        r#"select(.category == "billing" and .score > 0.9) | .id"#,
        ".meta.tags[]",
        "select(.id == 1000000 + 7919 * 99999) | .title",
        "if .active then .id else error(.category) end",
        "empty",
        "error(\"no\")",
        ".id |",
    ];
    let slurped = Jq { filter: "map(.score) | add".to_owned(), slurp: true, ..Jq::default() };
    let taken_apart: Vec<_> = taken_apart.into_iter().map(query).chain(programs.map(jq)).collect();
    let as_a_whole: Vec<_> = as_a_whole.into_iter().map(query).chain([Question::Jq(slurped)]).collect();
    let budgets = [Budget::default(), Budget { bytes: 700, tokens: 8000 }, Budget { bytes: 20_000, tokens: 90 }];
    let asked = |questions: &[Question], is_apart: bool| {
        for (question, budget) in questions.iter().flat_map(|question| budgets.map(|budget| (question, budget))) {
            match [1, 2].map(|instances| large.ask(instances, question, budget)) {
                [Ok((one, single)), Ok((several, cost))] => {
                    assert_eq!(format!("{several:?}"), format!("{one:?}"), "{question:?}");
                    let has_several = cost.memory_bytes > single.memory_bytes;
                    assert_eq!(has_several, is_apart && processors() > 1, "{question:?}: {cost:?}");
                }
                [one, several] => {
                    assert_eq!(several.unwrap_err().to_string(), one.unwrap_err().to_string(), "{question:?}");
                }
            }
        }
    };
    asked(&taken_apart, true);
    asked(&as_a_whole, false);
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[test]
fn several_instances_have_the_time_of_one() {
    let large = large();
    let limits = QueryLimits { wall_time_ms: NonZeroU64::MIN, ..QueryLimits::default() };
    let extractor = large.extractor(&limits);
    let question = query(json!({"group": "title"}));
    let error = extractor.ask(&large.offload, None, &question, Budget::default()).unwrap_err();
    let ExtractError::Call(CallError::Deadline(limit)) = error else { panic!("{error}") };
    assert_eq!(limit, Limits::from(&limits).wall_time, "the limit of the question, not of a part");
}

#[test]
fn several_instances_refuse_a_file_that_has_changed() {
    let large = large();
    let other = Large::new();
    let path = other.offload.path().join(&other.offload.record().files[0].name);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.iter().rposition(|byte| *byte == b'e').unwrap();
    bytes[last] = b'a';
    fs::write(&path, bytes).unwrap();
    for instances in [1, 2] {
        let limits = QueryLimits { instances: NonZeroU32::new(instances).unwrap(), ..QueryLimits::default() };
        let extractor = large.extractor(&limits);
        let question = query(json!({"where": "score > 0.5", "count": true}));
        let error = extractor.ask(&other.offload, None, &question, Budget::default()).unwrap_err();
        assert!(matches!(error, ExtractError::Store(StoreError::Changed { .. })), "{error}");
    }
}
