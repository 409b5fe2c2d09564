//! Answers: lines within a budget, and what is left.

use lro_contract::query::Query;
use lro_jsonl::Measure;
use lro_payload::{Part, PartError, PartKind, Payload};
use serde::ser::{Error, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{ANSWER_BYTES_MAX, Budget, Jq, Question, QuestionError, Search, Sql};

/// Default limit of a query, as documented in `wit/types.wit`.
const LIMIT_DEFAULT: u64 = 50;

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Results as JSON Lines.
    pub lines: String,
    /// Number of results in `lines`.
    pub results: u64,
    /// Number of the first result in `lines`.
    pub offset: u64,
    /// Number of all results, including those before `offset` and beyond limit and budget.
    pub total: u64,
    /// Records that satisfied the condition; lines or strings that match a search.
    pub matched: u64,
    /// Records or lines examined.
    pub examined: u64,
    /// Why `lines` ends before the last result.
    pub cut: Option<Cut>,
    /// Records on which a jq program failed.
    pub failures: Option<Failures>,
    /// What the query was taken to mean, where it says something else: values compared as another type, and tests that
    /// look into one of two types only. Of a search, what it leaves open.
    pub notes: Vec<String>,
}

/// Why an answer ends before the last result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The limit of the query.
    Limit,
    /// The budget: the next result has this many bytes.
    Budget(u64),
}

impl Answer {
    /// Number of results after `lines`. To get them, ask again with `offset` increased by `results`.
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.offset).saturating_sub(self.results)
    }

    /// The results as one JSON array, to be offloaded again.
    ///
    /// # Errors
    /// Never for an answer that was checked.
    pub fn into_payload(self) -> Result<Payload, PartError> {
        let array = format!("[{}]", self.lines.trim_end().replace('\n', ","));
        Ok(Payload::new(vec![Part::text(PartKind::Structured, array.into())?]))
    }
}

/// Serializes as one object: `{"results": […], "offset", "total", "left", "matched", "examined", "cut", "next_bytes",
/// "failures", "notes"}`, where `cut` is `limit` or `budget`; members without a value are left out.
impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let results = self.lines.lines().map(serde_json::from_str::<&RawValue>).collect::<Result<Vec<_>, _>>();
        let (cut, next_bytes) = match self.cut {
            Some(Cut::Limit) => (Some("limit"), None),
            Some(Cut::Budget(bytes)) => (Some("budget"), Some(bytes)),
            None => (None, None),
        };
        let mut object = serializer.serialize_struct("Answer", 10)?;
        object.serialize_field("results", &results.map_err(S::Error::custom)?)?;
        object.serialize_field("offset", &self.offset)?;
        object.serialize_field("total", &self.total)?;
        object.serialize_field("left", &self.left())?;
        object.serialize_field("matched", &self.matched)?;
        object.serialize_field("examined", &self.examined)?;
        if let Some(cut) = cut {
            object.serialize_field("cut", cut)?;
        }
        if let Some(bytes) = next_bytes {
            object.serialize_field("next_bytes", &bytes)?;
        }
        if let Some(failures) = &self.failures {
            object.serialize_field("failures", failures)?;
        }
        if !self.notes.is_empty() {
            object.serialize_field("notes", &self.notes)?;
        }
        object.end()
    }
}

/// How a jq program failed on some of the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// Number of such records.
    pub records: u64,
    /// Number of the first one, counted from 0.
    pub first: u64,
    /// The error on that record.
    pub message: String,
}

impl Answer {
    /// The answer without results, from an offset on.
    pub fn empty(offset: u64) -> Self {
        Self {
            lines: String::new(),
            results: 0,
            offset,
            total: 0,
            matched: 0,
            examined: 0,
            cut: None,
            failures: None,
            notes: Vec::new(),
        }
    }

    /// The answer to a query that only counts all records.
    pub fn of_count(records: u64) -> Self {
        let lines = format!("{{\"count\":{records}}}\n");
        Self { lines, results: 1, total: 1, matched: records, ..Self::empty(0) }
    }

    /// What a component answered to a question within the budget `asked`, checked; cut to `budget`.
    ///
    /// # Errors
    /// [`QuestionError::Answer`] if it contradicts itself, and [`QuestionError::Limit`].
    pub fn of_question(self, question: &Question, asked: Budget, budget: Budget) -> Result<Self, QuestionError> {
        let mut answer = self.checked(asked)?;
        match question {
            Question::Jq(jq) => return answer.page(jq, budget),
            Question::Query(Query { count: true, .. }) | Question::Search(Search { count: true, .. }) => {}
            Question::Query(query) => {
                answer.offset = query.offset;
                answer.note_limit(answer.results >= query.limit.map_or(LIMIT_DEFAULT, u64::from));
            }
            Question::Search(search) => {
                answer.offset = search.offset;
                answer.note_limit(true);
            }
            Question::Lines(_) => answer.note_limit(true),
        }
        Ok(answer)
    }

    /// What a component answered to a query in SQL, checked.
    ///
    /// # Errors
    /// [`QuestionError::Answer`] if it contradicts itself.
    pub fn of_sql(self, sql: &Sql, asked: Budget) -> Result<Self, QuestionError> {
        self.page_from(sql.offset, sql.limit, asked)
    }

    /// What a component answered to a jq program without the results before its offset and beyond its limit, checked.
    ///
    /// # Errors
    /// [`QuestionError::Answer`] if it contradicts itself.
    pub fn of_jq(self, jq: &Jq, asked: Budget) -> Result<Self, QuestionError> {
        self.page_from(jq.offset, jq.limit, asked)
    }

    fn page_from(self, offset: u64, limit: Option<u32>, asked: Budget) -> Result<Self, QuestionError> {
        let mut answer = Self { offset, ..self.checked(asked)? };
        answer.note_limit(limit.is_some_and(|limit| answer.results >= u64::from(limit)));
        Ok(answer)
    }

    fn checked(self, asked: Budget) -> Result<Self, QuestionError> {
        let lines = self.lines.bytes().filter(|byte| *byte == b'\n').count();
        if self.lines.len() > asked.bytes as usize || lines as u64 != self.results {
            return Err(QuestionError::Answer("wrong number or size of lines"));
        }
        Ok(self)
    }

    /// Notes that results are left because of a limit, if the budget has room for more.
    fn note_limit(&mut self, is_reached: bool) {
        if is_reached && self.cut.is_none() && self.left() > 0 {
            self.cut = Some(Cut::Limit);
        }
    }

    /// Keeps the results that a jq program's offset and limit name, within a budget.
    fn page(mut self, jq: &Jq, budget: Budget) -> Result<Self, QuestionError> {
        if jq.offset > 0 && jq.offset >= self.results && self.results < self.total {
            let message = format!(
                "offset: the results before it take more than {ANSWER_BYTES_MAX} bytes; return less per record"
            );
            return Err(QuestionError::Limit(message));
        }
        let limit = jq.limit.map_or(u64::MAX, u64::from);
        let (mut kept, mut size) = (String::new(), Measure::text());
        let (mut results, mut cut) = (0, self.cut);
        let skipped = usize::try_from(jq.offset).unwrap_or(usize::MAX);
        for line in self.lines.split_inclusive('\n').skip(skipped) {
            if results == limit {
                cut = Some(Cut::Limit);
                break;
            }
            size.push(line);
            if kept.len() + line.len() > budget.bytes as usize || size.tokens() > u64::from(budget.tokens) {
                cut = Some(Cut::Budget(line.len() as u64));
                break;
            }
            kept.push_str(line);
            results += 1;
        }
        (self.lines, self.results, self.offset) = (kept, results, jq.offset);
        self.cut = cut.filter(|_| self.left() > 0).map(|cut| if results == limit { Cut::Limit } else { cut });
        Ok(self)
    }
}

/// What to ask a component for: for a page of the results of a jq program, also those before it.
///
/// # Errors
/// [`QuestionError::Invalid`] for a jq program whose limit is out of bounds.
pub fn asked_budget(question: &Question, budget: Budget) -> Result<Budget, QuestionError> {
    let Question::Jq(jq) = question else { return Ok(budget.capped()) };
    jq.check_limit()?;
    if jq.offset > 0 { Ok(Budget { bytes: ANSWER_BYTES_MAX, tokens: u32::MAX }) } else { Ok(budget.capped()) }
}
