//! Whole answers, of any size.
//!
//! An answer has a maximum size, as it leaves the sandbox in one piece. The results of plain records, one after another, are those
//! of any part of the file one after another: a part is asked about behind the other, so that memory stays bounded and each
//! record is read once. Answers about all records together, such as sorted ones, have to fit.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use lro_jsonl::Measure;
use lro_reading::{QuestionError, Section, files, fit};

use super::opened::Opened;
use super::{
    ANSWER_BYTES_MAX, Answer, Budget, Cut, ExtractError, Extractor, HITS_MAX, Jq, Query, Question, RESULTS_MAX, Search,
    Sql, Tables, add_counts, component, question_error, unless_all_failed,
};
use crate::job;
use crate::sandbox::{CallError, Cost, Limits};
use crate::store::{FileRecord, Offload, Reader};

/// Bytes of a file that are asked about at a time, as long as the answers fit: 2 MiB. Half of what an answer may have, so that
/// results may be longer than their records.
const PART_BYTES: u64 = ANSWER_BYTES_MAX as u64 / 2;

/// The largest budget.
const WHOLE: Budget = Budget { bytes: ANSWER_BYTES_MAX, tokens: u32::MAX };

impl Extractor {
    /// Writes all results of a question to `out`, as JSON Lines, and returns the answer without its lines. Blocks.
    ///
    /// A query without `group`, `sort`, `distinct`, `sample` and `count`, and a jq program without `slurp`, have any number of
    /// results, unless they have a limit; each may have as many bytes as an answer. The files are compared with their
    /// checksums meanwhile, so what is written counts when this returns without an error. Until then, other questions wait for an
    /// offload that this copies from a bucket.
    ///
    /// # Errors
    /// [`ExtractError::Incomplete`] if any other question has more results than fit into one answer, or, without a limit, than it
    /// may ask for; [`ExtractError::Write`]; and those of [`Extractor::ask`].
    pub fn export(
        &self,
        offload: &Offload,
        section: Option<&str>,
        question: &Question,
        out: &mut dyn Write,
    ) -> Result<Answer, ExtractError> {
        match question {
            Question::Query(query) if query.is_plain() => {
                // Says which fields are in no record at all.
                let nothing = Budget { bytes: 0, tokens: 0 };
                let checked = self.ask(offload, section, &unlimited(question).0, nothing)?;
                let file = only(offload, section, question)?;
                let (query, _) = fit(query, file.schema.as_deref());
                let of_part = Query { offset: 0, limit: Some(RESULTS_MAX), ..query.clone() };
                let asked = component::Question::Query((&of_part).into());
                let export = Export::new(self, offload, file, query.offset, query.limit)?;
                let (answer, _) = job::finish(export.run(&asked, writing(out)))?;
                Ok(Answer { notes: checked.notes, ..answer })
            }
            Question::Jq(jq) if !jq.slurp => {
                jq.check_limit()?;
                let file = only(offload, section, question)?;
                let asked = component::Question::Jq(jq.into());
                let export = Export::new(self, offload, file, jq.offset, jq.limit)?;
                Ok(job::finish(export.run(&asked, writing(out)))?.0)
            }
            question => {
                let (question, has_limit) = unlimited(question);
                whole(self.ask(offload, section, &question, WHOLE)?, has_limit, out)
            }
        }
    }

    /// The results of a jq program from its offset on, as many as its limit and the budget allow. All parts of the file
    /// together take as long as one call may.
    pub(super) async fn page(
        &self,
        offload: &Offload,
        file: &FileRecord,
        jq: &Jq,
        budget: Budget,
    ) -> Result<(Answer, Cost), ExtractError> {
        jq.check_limit()?;
        let (mut kept, mut size, budget) = (String::new(), Measure::text(), budget.capped());
        let keep = |line: &str| {
            size.push(line);
            let fits = kept.len() + line.len() <= budget.bytes as usize && size.tokens() <= u64::from(budget.tokens);
            if fits {
                kept.push_str(line);
            }
            Ok(fits)
        };
        let export = Export::new(self, offload, file, jq.offset, jq.limit)?.within_wall_time();
        let (answer, cost) = export.run(&component::Question::Jq(jq.into()), keep).await?;
        Ok((Answer { lines: kept, ..answer }, cost))
    }

    /// As [`Extractor::export`], of a query in SQL. Its rows have to fit into one answer.
    ///
    /// # Errors
    /// As [`Extractor::export`].
    pub fn export_sql(&self, tables: &[Tables], sql: &Sql, out: &mut dyn Write) -> Result<Answer, ExtractError> {
        whole(self.sql(tables, sql, WHOLE)?, sql.limit.is_some(), out)
    }
}

/// The file that a query or a jq program is about.
fn only<'a>(offload: &'a Offload, section: Option<&str>, question: &Question) -> Result<&'a FileRecord, ExtractError> {
    Ok(files(offload.record(), section, question)?.first().copied().ok_or(QuestionError::NoRecords)?)
}

/// The question with the largest limit if it has none, and whether it has one. A ranked search has one: it is about the best
/// passages.
fn unlimited(question: &Question) -> (Question, bool) {
    match question.clone() {
        Question::Query(query) => {
            let has_limit = query.limit.is_some();
            (Question::Query(Query { limit: query.limit.or(Some(RESULTS_MAX)), ..query }), has_limit)
        }
        Question::Search(search) if search.rank => (Question::Search(search), true),
        Question::Search(search) => {
            let has_limit = search.limit.is_some();
            (Question::Search(Search { limit: search.limit.or(Some(HITS_MAX)), ..search }), has_limit)
        }
        Question::Jq(jq) => {
            let has_limit = jq.limit.is_some();
            (Question::Jq(jq), has_limit)
        }
        Question::Lines(range) => (Question::Lines(range), false),
    }
}

/// Writes the lines of an answer that ends with its last result or at a limit of the question.
fn whole(answer: Answer, has_limit: bool, out: &mut dyn Write) -> Result<Answer, ExtractError> {
    match answer.cut {
        None => {}
        Some(Cut::Limit) if has_limit => {}
        Some(_) => return Err(ExtractError::Incomplete { results: answer.results, total: answer.total }),
    }
    out.write_all(answer.lines.as_bytes())?;
    Ok(Answer { lines: String::new(), ..answer })
}

/// Writes each line.
fn writing(out: &mut dyn Write) -> impl FnMut(&str) -> io::Result<bool> {
    |line| out.write_all(line.as_bytes()).map(|()| true)
}

/// Results of one file of records, part by part.
struct Export<'a> {
    extractor: &'a Extractor,
    offload: &'a Offload,
    file: &'a FileRecord,
    opened: Opened,
    reader: Arc<Reader>,
    /// Where the next part begins.
    start: u64,
    /// How large it may be; its last record may end behind.
    part_bytes: u64,
    /// Results that are still to skip.
    skip: u64,
    /// Results that may still be kept.
    room: u64,
    /// Bytes of the first result that was not kept although there was room.
    refused: Option<u64>,
    /// How long all calls together may take.
    wall_time: Option<Duration>,
    answer: Answer,
    cost: Cost,
}

impl<'a> Export<'a> {
    fn new(
        extractor: &'a Extractor,
        offload: &'a Offload,
        file: &'a FileRecord,
        offset: u64,
        limit: Option<u32>,
    ) -> Result<Self, ExtractError> {
        let room = limit.map_or(u64::MAX, u64::from);
        let opened = Opened::open(&[(offload, file)])?;
        let reader = opened.first().ok_or(QuestionError::NoRecords)?;
        Ok(Self {
            extractor,
            offload,
            file,
            opened,
            reader,
            start: file.digest_from,
            part_bytes: PART_BYTES,
            skip: offset,
            room,
            refused: None,
            wall_time: None,
            answer: Answer::empty(offset),
            cost: Cost::default(),
        })
    }

    /// Bounds the time of all parts together. That in which the file arrives does not count.
    fn within_wall_time(self) -> Self {
        Self { wall_time: Some(self.extractor.limits.wall_time), ..self }
    }

    /// Calls `keep` with each result that is wanted, until it returns false.
    async fn run(
        mut self,
        question: &component::Question,
        mut keep: impl FnMut(&str) -> io::Result<bool>,
    ) -> Result<(Answer, Cost), ExtractError> {
        let asked = self.ask_all(question, &mut keep).await;
        let Self { opened, reader, answer, refused, cost, .. } = self;
        drop(reader);
        // If the file did not come or has changed, that explains any other error.
        opened.end()?;
        asked?;
        let answer = unless_all_failed(answer)?;
        let cut = Some(refused.map_or(Cut::Limit, Cut::Budget)).filter(|_| answer.left() > 0);
        Ok((Answer { cut, ..answer }, cost))
    }

    /// Asks about each part, once all of it is there.
    async fn ask_all(
        &mut self,
        question: &component::Question,
        keep: &mut impl FnMut(&str) -> io::Result<bool>,
    ) -> Result<(), ExtractError> {
        while self.start < self.file.bytes {
            let end = self.reader.next_line(self.start + self.part_bytes)?;
            let answer = self.ask(end, question).await?;
            tracing::debug!(start = self.start, end, results = answer.results, "asked about a part of a file");
            if self.has_wanted(&answer) {
                self.add(answer, keep)?;
                self.start = end;
                self.part_bytes = (self.part_bytes * 2).min(PART_BYTES);
            } else if self.reader.next_line(self.start + 1)? < end {
                self.part_bytes = self.part_bytes.min(end - self.start) / 2;
            } else {
                let message = format!(
                    "the results of record {} alone have more than {ANSWER_BYTES_MAX} bytes, or are more than \
                     {RESULTS_MAX}: return less of it",
                    self.answer.examined
                );
                return Err(QuestionError::Limit(message).into());
            }
        }
        Ok(())
    }

    /// Asks about the records up to an offset.
    async fn ask(&mut self, end: u64, question: &component::Question) -> Result<Answer, ExtractError> {
        let source = component::Source { start: self.start, bytes: end, ..self.file.into() };
        // Behind the last result that is wanted, the others are only counted.
        let bytes = if self.room > 0 { WHOLE.bytes } else { 0 };
        let budget = Budget { bytes, ..WHOLE }.into();
        let (prepared, limits) = (self.extractor.prepared.get()?, &self.extractor.limits);
        let wall_time = limits.wall_time;
        let left = self.wall_time.map_or(wall_time, |all| all.saturating_sub(self.cost.time));
        if left.is_zero() {
            return Err(ExtractError::Call(CallError::Deadline(wall_time)));
        }
        let limits = Limits { wall_time: left, ..limits.clone() };
        // A copy may be removed at any time once it is made.
        let directories =
            if self.opened.is_copying() { self.opened.directories()? } else { vec![self.offload.directory()?] };
        let incoming = self.opened.incoming();
        let asked = prepared.extract_async(&limits, directories, incoming, &[source], question, budget).await;
        let (answer, cost) = asked.map_err(ExtractError::Call)?;
        self.cost.time += cost.time;
        self.cost.memory_bytes = self.cost.memory_bytes.max(cost.memory_bytes);
        match answer {
            Ok(answer) => Ok(answer.into()),
            Err(component::ExtractError::Damaged(record)) => {
                Err(QuestionError::Damaged(self.answer.examined + record).into())
            }
            Err(error) => Err(question_error(error, question).into()),
        }
    }

    /// Whether an answer has all results of its part that are to be written.
    fn has_wanted(&self, answer: &Answer) -> bool {
        let end = answer.total.min(self.skip.saturating_add(self.room));
        end <= self.skip || end <= answer.results
    }

    fn add(&mut self, part: Answer, keep: &mut impl FnMut(&str) -> io::Result<bool>) -> Result<(), ExtractError> {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        for line in part.lines.split_inclusive('\n').skip(skip).take(room) {
            if !keep(line)? {
                (self.room, self.refused) = (0, Some(line.len() as u64));
                break;
            }
            self.room -= 1;
            self.answer.results += 1;
        }
        self.skip = self.skip.saturating_sub(part.total);
        add_counts(&mut self.answer, part);
        Ok(())
    }
}
