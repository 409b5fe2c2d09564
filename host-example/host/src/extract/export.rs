//! Whole answers, of any size.
//!
//! An answer has a maximum size, as it leaves the sandbox in one piece. The results of plain records, one after another, are those
//! of any part of the file one after another: a part is asked about behind the other, so that memory stays bounded and each
//! record is read once. Answers about all records together, such as sorted ones, have to fit.

use std::io::Write;

use super::{
    ANSWER_BYTES_MAX, Answer, Budget, Cut, ExtractError, Extractor, Failures, HITS_MAX, Query, Question, RESULTS_MAX,
    Search, Sql, Tables, component, files, fit,
};
use crate::sandbox::Cost;
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
    /// checksums before the last line is written, so what is written counts when this returns without an error.
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
                let (query, _) = fit::fit(query, file.schema.as_deref());
                let of_part = Query { offset: 0, limit: Some(RESULTS_MAX), ..query.clone() };
                let asked = component::Question::Query((&of_part).into());
                let answer = Export::new(self, offload, file, query.offset, query.limit)?.run(&asked, out)?;
                Ok(Answer { notes: checked.notes, ..answer })
            }
            Question::Jq(jq) if !jq.slurp => {
                jq.check_limit()?;
                let file = only(offload, section, question)?;
                let asked = component::Question::Jq(jq.into());
                Export::new(self, offload, file, jq.offset, jq.limit)?.run(&asked, out)
            }
            question => {
                let (question, has_limit) = unlimited(question);
                whole(self.ask(offload, section, &question, WHOLE)?, has_limit, out)
            }
        }
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
    files::files(offload, section, question)?.first().copied().ok_or(ExtractError::NoRecords)
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

/// Results of one file of records, part by part.
struct Export<'a> {
    extractor: &'a Extractor,
    offload: &'a Offload,
    file: &'a FileRecord,
    reader: Reader,
    /// Where the next part begins.
    start: u64,
    /// How large it may be; its last record may end behind.
    part_bytes: u64,
    /// Results that are still to skip.
    skip: u64,
    /// Results that may still be written.
    room: u64,
    answer: Answer,
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
        let reader = offload.open(&file.name)?;
        let (start, part_bytes, skip) = (file.digest_from, PART_BYTES, offset);
        Ok(Self { extractor, offload, file, reader, start, part_bytes, skip, room, answer: Answer::empty(offset) })
    }

    fn run(mut self, question: &component::Question, out: &mut dyn Write) -> Result<Answer, ExtractError> {
        while self.start < self.file.bytes {
            let end = self.reader.next_line(self.start + self.part_bytes)?;
            let (answer, cost) = self.ask(end, question)?;
            tracing::debug!(start = self.start, end, results = answer.results, "asked about a part of a file");
            if self.has_wanted(&answer) {
                self.add(answer, cost, out)?;
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
                return Err(ExtractError::Limit(message));
            }
        }
        self.reader.verify()?;
        let answer = self.answer;
        if let Some(failures) =
            answer.failures.as_ref().filter(|all| all.records == answer.examined && answer.total == 0)
        {
            return Err(ExtractError::Failed(failures.clone()));
        }
        let cut = Some(Cut::Limit).filter(|_| answer.left() > 0);
        Ok(Answer { cut, ..answer })
    }

    /// Asks about the records up to an offset.
    fn ask(&self, end: u64, question: &component::Question) -> Result<(component::Answer, Cost), ExtractError> {
        let source = component::Source { start: self.start, bytes: end, ..self.file.into() };
        // Behind the last result that is wanted, the others are only counted.
        let bytes = if self.room > 0 { WHOLE.bytes } else { 0 };
        let budget = component::Budget { bytes, tokens: WHOLE.tokens };
        let Extractor { prepared, limits, .. } = self.extractor;
        let asked = prepared.extract(limits, vec![self.offload.directory()?], &[source], question, budget);
        let (answer, cost) = asked.map_err(ExtractError::Call)?;
        match answer {
            Ok(answer) => Ok((answer, cost)),
            Err(component::ExtractError::Damaged(record)) => Err(ExtractError::Damaged(self.answer.examined + record)),
            Err(error) => Err(ExtractError::of_contract(error, question)),
        }
    }

    /// Whether an answer has all results of its part that are to be written.
    fn has_wanted(&self, answer: &component::Answer) -> bool {
        let end = answer.total.min(self.skip.saturating_add(self.room));
        end <= self.skip || end <= answer.results
    }

    fn add(&mut self, part: component::Answer, cost: Cost, out: &mut dyn Write) -> Result<(), ExtractError> {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        for line in part.lines.split_inclusive('\n').skip(skip).take(room) {
            out.write_all(line.as_bytes())?;
            self.room -= 1;
            self.answer.results += 1;
        }
        self.skip = self.skip.saturating_sub(part.total);
        let answer = &mut self.answer;
        if let Some(component::Failures { records, first, message }) = part.failures {
            let first = answer.examined + first;
            answer.failures.get_or_insert(Failures { records: 0, first, message }).records += records;
        }
        answer.total += part.total;
        answer.matched += part.matched;
        answer.examined += part.examined;
        answer.cost.time += cost.time;
        answer.cost.memory_bytes = answer.cost.memory_bytes.max(cost.memory_bytes);
        Ok(())
    }
}
