//! Questions about offloads that are only in the bucket, beyond those about one file at once: SQL and results of jq programs.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use lro_host::extract::{Answer, Budget, ExtractError, Extractor, Jq, Question, Sql, Tables};
use lro_host::store::{Store, Ulid};
use lro_tests::bucket::{Fate, Seen, put};
use lro_tests::extractor;

use crate::support::{HEADER, TEAM, forget_copies, has_copy, id, in_each_bucket, publish, rows};

/// Records of 5 MB, so that half of them are more than one part of what a jq program is asked about.
const MANY: usize = 150_000;

fn records(count: usize) -> String {
    format!("{HEADER}{}", rows(count))
}

fn jq(filter: &str, offset: u64, limit: Option<u32>) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), slurp: false, arguments: [].into(), offset, limit })
}

/// The answer about offloads, each with the name of its table.
fn sql(extractor: &Extractor, store: &Store, from: &[(&str, Ulid)], query: &str) -> Result<String, ExtractError> {
    let table = |(name, id): &(&str, Ulid)| {
        Ok(Tables { offload: store.find(TEAM, *id)?, section: None, name: Some((*name).to_owned()) })
    };
    let tables = from.iter().map(table).collect::<Result<Vec<_>, ExtractError>>()?;
    let sql = Sql { query: query.to_owned(), offset: 0, limit: None };
    Ok(extractor.sql(&tables, &sql, Budget::default())?.lines)
}

fn is_for_records(seen: &Seen) -> bool {
    seen.target.contains("/items.jsonl")
}

/// Says when the first result comes.
struct Told(Sender<()>, Vec<u8>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(());
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn results_of_a_jq_program_come_while_the_file_arrives() {
    in_each_bucket(|place| {
        let id = id();
        publish(&place.open("one"), id, &[("items.jsonl", &records(MANY))]).unwrap();
        let proxy = place.proxy();
        let store = place.open_behind("two", proxy.port(), |_| {});
        // The rest of the file is held back until there is a result.
        let (told, came) = channel();
        let mut breaks = 1;
        proxy.decide(move |seen| match is_for_records(seen) {
            true if breaks > 0 => {
                breaks -= 1;
                Fate::AnswerCut
            }
            true if came.recv_timeout(Duration::from_secs(60)).is_err() => Fate::Refused,
            _ => Fate::Answered,
        });
        let (offload, mut out) = (store.find(TEAM, id).unwrap(), Told(told, Vec::new()));
        let answer = extractor().export(&offload, None, &jq(".id", 0, None), &mut out).unwrap();
        let expected: String = (0..MANY).map(|row| format!("{row}\n")).collect();
        assert!(answer.results == MANY as u64 && out.1 == expected.as_bytes());
        assert!(has_copy(&store, id));
    });
}

#[test]
fn a_page_of_results_copies_its_offload_once_and_counts_when_it_is_verified() {
    in_each_bucket(|place| {
        let id = id();
        let records = records(MANY);
        publish(&place.open("one"), id, &[("items.jsonl", &records), ("text.txt", "beside")]).unwrap();
        let proxy = place.proxy();
        let store = place.open_behind("two", proxy.port(), |_| {});
        let page = |offset| -> Result<Answer, ExtractError> {
            extractor().ask(&store.find(TEAM, id)?, None, &jq(".name", offset, Some(2)), Budget::default())
        };
        proxy.decide(|seen| if is_for_records(seen) { Fate::AnswerSlow } else { Fate::Answered });
        let answer = page(149_997).unwrap();
        assert_eq!((answer.lines.as_str(), answer.total), ("\"row 149997\"\n\"row 149998\"\n", MANY as u64));
        assert_eq!(page(149_999).unwrap().lines, "\"row 149999\"\n");
        assert_eq!(proxy.seen().iter().filter(|seen| is_for_records(seen)).count(), 1);
        // The page is right before the last byte, which is another.
        forget_copies(&store);
        let mut damaged = records.into_bytes();
        *damaged.last_mut().unwrap() = b' ';
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), &damaged);
        let refused = page(1).unwrap_err();
        assert!(refused.to_string().contains("has changed") && !has_copy(&store, id), "{refused}");
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), &damaged[..3_000_000]);
        assert!(page(1).is_err() && !has_copy(&store, id));
    });
}

#[test]
fn a_query_in_sql_reads_files_of_several_offloads_while_they_arrive() {
    let extractor = extractor();
    in_each_bucket(|place| {
        let writer = place.open("one");
        let (small, large) = (id(), id());
        publish(&writer, small, &[("items.jsonl", &records(10))]).unwrap();
        publish(&writer, large, &[("items.jsonl", &records(MANY))]).unwrap();
        let proxy = place.proxy();
        let store = place.open_behind("two", proxy.port(), |_| {});
        proxy.decide(|seen| if is_for_records(seen) { Fate::AnswerSlow } else { Fate::Answered });
        let query = "SELECT count(*) AS n, max(id) AS last FROM a UNION ALL SELECT count(*), max(id) FROM b";
        let ask = |a, b| sql(&extractor, &store, &[("a", a), ("b", b)], query);
        let (of_small, of_large) = ("{\"n\":10,\"last\":9}\n", "{\"n\":150000,\"last\":149999}\n");
        // Each waits for offloads that another copies, whatever the order in which it names them, and never for itself.
        thread::scope(|scope| {
            let asked = [(large, small), (small, large), (small, small)].map(|(a, b)| scope.spawn(move || ask(a, b)));
            let answers = asked.map(|asked| asked.join().unwrap().unwrap());
            let expected = [(of_large, of_small), (of_small, of_large), (of_small, of_small)];
            assert_eq!(answers, expected.map(|(first, second)| format!("{first}{second}")));
        });
        assert_eq!(proxy.seen().iter().filter(|seen| is_for_records(seen)).count(), 2, "each file once");
        assert!(has_copy(&store, small) && has_copy(&store, large));
        // Of one that is here and one that is not.
        forget_copies(&store);
        assert_eq!(ask(small, small).unwrap(), format!("{of_small}{of_small}"));
        assert!(has_copy(&store, small) && !has_copy(&store, large));
        assert_eq!(ask(small, large).unwrap(), format!("{of_small}{of_large}"));
        // The answer is right before the last byte, which is another.
        forget_copies(&store);
        let mut damaged = records(MANY).into_bytes();
        *damaged.last_mut().unwrap() = b' ';
        put(&place.url, &format!("{TEAM}/{large}/items.jsonl"), &damaged);
        let refused = ask(small, large).unwrap_err();
        assert!(refused.to_string().contains("has changed") && !has_copy(&store, large), "{refused}");
    });
}
