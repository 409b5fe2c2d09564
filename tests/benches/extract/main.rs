//! Measures reading back, as ratios to jq, DuckDB and `wc` in the same run on the same file. The answers are compared
//! first: a wrong answer ends the run.
//!
//! `make bench`, or `LRO_BENCH_RECORDS=100000 make bench` for another size.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program that may stop at the first surprise"
)]

mod others;
#[path = "../shared/mod.rs"]
mod shared;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lro_host::extract::{Answer, Budget, Extractor, Jq, Question};
use lro_host::read::{PageContent, PageRequest, Pages, Start};
use lro_host::store::{Offload, Store};
use lro_tests::synthetic;
use others::Duck;
use serde_json::{Value, json};
use shared::{alternate, median, millis, sizes};

/// Runs of each question.
const REPETITIONS: usize = 5;
/// Runs of a question that takes seconds.
const SLOW_REPETITIONS: usize = 3;

/// Required speed relative to DuckDB: half as fast.
const DUCK_ASKED: f64 = 0.5;

/// Two conditions, in jq and SQL.
const JQ_BOTH: &str = r#"select(.category == "billing" and .score > 0.9)"#;
const SQL_BOTH: &str = "WHERE category = 'billing' AND score > 0.9";

/// A query for all programs.
struct Case {
    name: &'static str,
    question: Question,
    jq: Option<Program>,
    sql: Option<String>,
}

impl Case {
    /// Its name in the table, asked of so many instances.
    fn named(&self, instances: u32) -> String {
        if instances == 1 { self.name.to_owned() } else { format!("{}, {instances} instances", self.name) }
    }
}

/// The same query as a jq command.
struct Program {
    filter: &'static str,
    slurp: bool,
    /// Required speed relative to jq.
    asked: f64,
    /// Converts the results of jq to ours.
    results: fn(Vec<Value>) -> Vec<Value>,
}

/// A published offload, and the programs to compare with.
struct Bench {
    records: u64,
    extractor: Extractor,
    offload: Offload,
    store: Store,
    jq: Result<String, String>,
    duck: Result<Duck, String>,
    directory: tempfile::TempDir,
}

fn main() {
    for records in sizes(&[1_000_000]) {
        let mut bench = Bench::new(records);
        bench.introduce();
        let memory: Vec<_> = cases().iter().map(|case| (case.name, bench.case(case))).collect();
        bench.count();
        bench.page();
        for (name, bytes) in memory {
            table::limit(&format!("memory: {name}"), bytes as f64 / 1048576.0, 64.0, "MiB");
        }
    }
}

fn cases() -> Vec<Case> {
    let both =
        json!([{"field": "category", "op": "eq", "value": "billing"}, {"field": "score", "op": "gt", "value": 0.9}]);
    let counted = |records: Vec<Value>| vec![json!({ "count": records.len() })];
    let selected = |records: Vec<Value>| {
        records.iter().map(|record| json!({ "id": record["id"], "title": record["title"] })).collect()
    };
    let groups = |mut arrays: Vec<Value>| arrays.pop().and_then(|array| array.as_array().cloned()).unwrap();
    let program = |filter, asked| Program { filter, slurp: false, asked, results: |results| results };
    let opaque = |name, filter| Case { name, question: jq(filter), jq: Some(program(filter, 2.0)), sql: None };
    vec![
        Case {
            name: "two conditions, count",
            question: query(json!({ "where": both, "count": true })),
            jq: Some(Program { results: counted, ..program(JQ_BOTH, 10.0) }),
            sql: Some(format!("SELECT count(*) AS count FROM records {SQL_BOTH}")),
        },
        Case {
            name: "two conditions, two fields",
            question: query(json!({ "where": both, "select": ["id", "title"] })),
            jq: Some(Program { results: selected, ..program(JQ_BOTH, 10.0) }),
            sql: Some(format!("SELECT id, title FROM records {SQL_BOTH}")),
        },
        Case {
            name: "group by, count",
            question: query(json!({ "group": {"by": ["category"]}, "sort": ["category"] })),
            jq: Some(Program {
                filter: "group_by(.category) | map({category: .[0].category, count: length})",
                slurp: true,
                asked: 20.0,
                results: groups,
            }),
            sql: Some("SELECT category, count(*) AS count FROM records GROUP BY category ORDER BY category".to_owned()),
        },
        Case {
            name: "top 10 by score",
            question: query(
                json!({ "sort": [{"field": "score", "descending": true}], "select": ["score"], "limit": 10 }),
            ),
            jq: None,
            sql: Some("SELECT score FROM records ORDER BY score DESC LIMIT 10".to_owned()),
        },
        Case {
            name: "jq: two conditions | .id",
            question: jq(r#"select(.category == "billing" and .score > 0.9) | .id"#),
            jq: Some(program(r#"select(.category == "billing" and .score > 0.9) | .id"#, 1.5)),
            sql: None,
        },
        Case { name: "jq: .meta.owner", question: jq(".meta.owner"), jq: Some(program(".meta.owner", 1.5)), sql: None },
        opaque("jq: a regular expression", r#"select(.title | test("invoice.*7")) | .id"#),
        opaque("jq: all texts, counted", "[.. | strings] | length"),
        opaque("jq: rows of CSV", "[.id, .title, .score] | @csv"),
    ]
}

fn query(query: Value) -> Question {
    Question::Query(serde_json::from_value(query).unwrap())
}

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), ..Jq::default() })
}

impl Bench {
    /// Offloads the synthetic records, and copies them to a file without the header for DuckDB, which would take it for
    /// a record.
    fn new(records: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let filter = lro_tests::filter(&directory.path().join("store"));
        let request = lro_tests::request(lro_tests::settings());
        let payload = lro_tests::text(synthetic::payload(records));
        let offload = lro_tests::offloaded(filter.apply(&request, &payload)).offload;
        let plain = directory.path().join("records.jsonl");
        let bench = Self {
            records: records as u64,
            extractor: lro_tests::extractor(),
            store: filter.store.unwrap(),
            jq: others::jq_version(),
            duck: Duck::new(&plain),
            offload,
            directory,
        };
        let published = std::fs::read(bench.file()).unwrap();
        let header = published.iter().position(|byte| *byte == b'\n').unwrap();
        std::fs::write(&plain, &published[header + 1..]).unwrap();
        bench
    }

    fn file(&self) -> PathBuf {
        self.offload.path().join(&self.offload.record().files[0].name)
    }

    fn introduce(&self) {
        let bytes = self.offload.record().files[0].bytes;
        println!("\n{} records, {:.1} MB, read back; medians in one run", self.records, bytes as f64 / 1e6);
        match &self.jq {
            Ok(version) => println!("  {version}, on `tail -n +2 FILE`"),
            Err(reason) => println!("  skipped: {reason}"),
        }
        match &self.duck {
            Ok(duck) => println!("  DuckDB {}, a thread for each instance, the file without its header", duck.version),
            Err(reason) => println!("  skipped: {reason}"),
        }
        // A file that changed just now could change again in the same tick of the clock, so it is not remembered as
        // verified.
        std::thread::sleep(Duration::from_secs(3));
        let name = &self.offload.record().files[0].name;
        let started = Instant::now();
        self.offload.open(name).unwrap().verify().unwrap();
        println!("  checksum of the file, once before the first answer: {:.1} ms\n", millis(started.elapsed()));
        println!("  {:<40} {:>12}  {:<18} {:>12} {:>11}  asked", "", "ours", "other", "", "as fast");
    }

    fn ask(&self, question: &Question) -> Answer {
        self.extractor.ask(&self.offload, None, question, Budget::default()).unwrap()
    }

    /// Measures one query. Returns the linear memory of its answer, in bytes.
    fn case(&mut self, case: &Case) -> usize {
        let asked = self.extractor.ask_with_cost(&self.offload, None, &case.question, Budget::default());
        let (answer, cost) = asked.unwrap();
        let times = [1, 2].map(|instances| self.against_duck(case, &answer, instances));
        if let (Ok(_), Some(program)) = (&self.jq, &case.jq) {
            let theirs = self.jq(case, program, &answer);
            for (ours, instances) in times.iter().zip(1..) {
                table::row(&case.named(instances), ours, "jq", &theirs, Some(program.asked));
            }
        }
        cost.memory_bytes
    }

    /// Our times with so many instances; those of DuckDB with as many threads, with given or detected columns, whichever is
    /// faster, as a row.
    fn against_duck(&mut self, case: &Case, answer: &Answer, threads: u32) -> Vec<Duration> {
        let (extractor, offload) = (self.extractor.clone().with_instances(threads), &self.offload);
        let mut ours = || drop(extractor.ask(offload, None, &case.question, Budget::default()).unwrap());
        let (Ok(duck), Some(sql)) = (&mut self.duck, &case.sql) else {
            let [ours] = alternate(SLOW_REPETITIONS, [&mut ours]);
            return ours;
        };
        for is_given in [true, false] {
            compare(case, answer, &duck.ask(sql, is_given, threads).1);
        }
        let (mut given, mut detected) = (Vec::new(), Vec::new());
        let [ours, ..] = alternate(
            REPETITIONS,
            [&mut ours, &mut || {
                given.push(duck.ask(sql, true, threads).0);
                detected.push(duck.ask(sql, false, threads).0);
            }],
        );
        let is_given = median(&given) <= median(&detected);
        let (name, theirs) = if is_given { ("DuckDB, given", given) } else { ("DuckDB, detected", detected) };
        table::row(&case.named(threads), &ours, name, &theirs, Some(DUCK_ASKED));
        ours
    }

    /// Times of the jq command, whose results are compared with ours.
    fn jq(&self, case: &Case, program: &Program, answer: &Answer) -> Vec<Duration> {
        let output = self.directory.path().join("jq");
        let arguments = [program.filter, "--slurp"];
        let arguments = if program.slurp { &arguments[..] } else { &arguments[..1] };
        // All records at once take jq gigabytes and many seconds.
        let repetitions = if program.slurp { 1 } else { SLOW_REPETITIONS };
        let times: Vec<Duration> = (0..repetitions).map(|_| others::jq(&self.file(), arguments, &output)).collect();
        let printed = std::fs::read_to_string(output).unwrap();
        let results = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        compare(case, answer, &(program.results)(results));
        times
    }

    /// The number of all records, from the manifest.
    fn count(&self) {
        let question = query(json!({ "count": true }));
        let file = self.file();
        assert_eq!(self.ask(&question).lines, format!("{}\n", json!({ "count": self.records })));
        assert_eq!(others::wc(&file), self.records + 1);
        let [ours, wc] = alternate(REPETITIONS, [&mut || drop(self.ask(&question)), &mut || _ = others::wc(&file)]);
        table::row("count of all records", &ours, "wc -l", &wc, None);
        println!();
        table::limit("count of all records", millis(median(&ours)), 1.0, "ms");
    }

    /// One page near the end.
    fn page(&self) {
        let pages = Pages::new(self.store.clone()).unwrap();
        let from = self.records / 10 * 9;
        let section = self.offload.record().files[0].section.clone();
        let request = PageRequest {
            start: Start::Record(from),
            ..PageRequest::new(lro_tests::TENANT, self.offload.id(), section)
        };
        let page = pages.page(&request).unwrap();
        let PageContent::Records(records) = page.content else { panic!("no records") };
        let first: Value = serde_json::from_str(&records[0]).unwrap();
        assert_eq!(first["id"], synthetic::id(usize::try_from(from).unwrap()));
        let [time] = alternate(REPETITIONS, [&mut || drop(pages.page(&request).unwrap())]);
        table::limit(&format!("page from record {from}"), millis(median(&time)), 5.0, "ms");
    }
}

/// Panics unless our answer is a prefix of these results with the right total.
fn compare(case: &Case, answer: &Answer, results: &[Value]) {
    let ours: Vec<Value> = answer.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!ours.is_empty() && results.starts_with(&ours), "{}: {ours:?} is not {results:?}", case.name);
    let wanted = match &case.question {
        Question::Query(query) => query.limit.map_or(answer.total, |limit| answer.total.min(limit.into())),
        Question::Jq(_) | Question::Search(_) | Question::Lines(_) => answer.total,
    };
    assert_eq!(wanted, results.len() as u64, "{}", case.name);
}
