//! Pages that begin inside of a line, and questions that an offload cannot answer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::time::SystemTime;

use lro_contract::manifest::{FileRecord, OffloadRecord};
use lro_contract::query::Query;
use lro_contract::ulid::Ulid;
use lro_reading::tool::read;
use lro_reading::{
    Page, PageContent, PageError, PageRequest, PageSource, Question, QuestionError, Section, Start, files, read_page,
};

/// A text in memory.
struct Text {
    record: FileRecord,
    text: &'static str,
}

impl Section for Text {
    type Error = Infallible;

    fn record(&self) -> &FileRecord {
        &self.record
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, Infallible> {
        Ok(self.text.bytes().skip(offset as usize).take(length).collect())
    }

    fn known(&self) -> Result<&[(u64, u64)], Infallible> {
        Ok(&[])
    }
}

fn record(kind: &str, lines: usize, bytes: usize) -> FileRecord {
    let json = format!(
        r#"{{"name":"a","kind":"{kind}","section":"a","parts":[0],"pointer":null,"shape":null,"media_type":"text/plain",
            "records":{lines},"bytes":{bytes},"schema":null,"queries":[],"digest_from":0,"sha256":null}}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn page(text: &'static str, record: u64, offset: u64) -> Result<Page, PageError<Infallible>> {
    let section = Text { record: self::record("text", text.lines().count(), text.len()), text };
    let offload: Ulid = "01M80Z99Y86XT5TXS8952BNT88".parse().unwrap();
    let request = PageRequest { start: Start::Within { record, offset }, ..PageRequest::new("tests", offload, "a") };
    let source = PageSource { offload, expires: SystemTime::UNIX_EPOCH, growth: None, number: 0, section: &section };
    read_page(&request, &source, None, 4_096, |_| Ok(()), |_| Ok("cursor".to_owned()))
}

#[test]
fn a_page_begins_at_a_byte_of_a_line() {
    // The second byte of `é` is not the beginning of a character.
    for (offset, text, begins) in [(3, "déf", 3), (5, "f", 6)] {
        let content = page("first\nabcdéf\nlast\n", 1, offset).unwrap().content;
        assert!(
            matches!(&content, PageContent::Text(part) if part.data == text && part.offset == begins),
            "{content:?}"
        );
    }
    assert!(matches!(page("first\nabc\n", 1, 3), Err(PageError::NoByte { offset: 3, record: 1, bytes: 3 })));
}

#[test]
fn a_model_names_a_byte_of_a_line() {
    let asked = read(r#"{"handle":"h","from":1,"offset":400}"#).unwrap();
    assert_eq!(asked.start, Start::Within { record: 1, offset: 400 });
    assert!(read(r#"{"handle":"h","from":-1,"offset":400}"#).is_err());
    assert!(read(r#"{"handle":"h","cursor":"c","offset":400}"#).is_err());
}

#[test]
fn bytes_are_not_to_be_searched() {
    let offload = |kind| OffloadRecord {
        tool: "fetch".to_owned(),
        session: None,
        created: String::new(),
        descriptor: serde_json::from_str("{}").unwrap(),
        files: vec![record(kind, 1, 1)],
    };
    let ask = |kind| files(&offload(kind), None, &Question::Query(Query::default())).map(|_| ()).unwrap_err();
    assert_eq!(ask("bytes"), QuestionError::NoText);
    assert_eq!(ask("text"), QuestionError::NoRecords);
}
