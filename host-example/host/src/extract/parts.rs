//! A question about a large file for several instances, each of which reads a part of the records.
//!
//! What typed queries find in the parts is merged by one more instance. The results of jq programs that run once a record are
//! those of the parts, one after another.

use std::fs::File;
use std::iter::once;
use std::sync::Arc;
use std::time::Instant;

use lro_jsonl::Measure;
use lro_reading::Section;

use super::beside::Beside;
use super::component::{self, Budget, Jq, Question, Source};
use super::opened::Only;
use super::{Answer, Asked, Cut, ExtractError, QuestionError, add_counts, of_component, unless_all_failed};
use crate::job::Job;
use crate::sandbox::types::Query;
use crate::sandbox::{Answered, CallError, Cost, Limits, PoolPermit, PreparedExtraction};
use crate::store::{Reader, StoreError};

/// Smallest part of a file that an instance reads beside others: 8 MiB. A smaller one is read in less time than it takes to begin
/// and to merge.
pub const PART_BYTES_MIN: u64 = 8 << 20;

/// Instances that answer one question, by default.
pub const INSTANCES_DEFAULT: u32 = 4;

/// Parts of a file, and permits for the instances that read them.
pub(super) struct Parts {
    file: Arc<Whole>,
    parts: Vec<(Source, PoolPermit)>,
}

/// What all instances are asked with.
struct Whole {
    prepared: PreparedExtraction,
    limits: Limits,
    directory: File,
    source: Source,
}

/// Whether parts of the records may be asked one by one.
pub(super) fn is_divisible(question: &Question) -> bool {
    matches!(question, Question::Query(_) | Question::Jq(Jq { slurp: false, .. }))
}

impl Parts {
    /// At most `most` parts; `None` if one instance reads the whole file: it is small, no other processor is free, or
    /// instructions are counted, which each instance does by itself.
    pub(super) async fn of(
        prepared: &PreparedExtraction,
        limits: &Limits,
        most: u32,
        Only { reader, directory, source }: Only<'_>,
    ) -> Result<Option<Self>, ExtractError> {
        let bytes = source.bytes.saturating_sub(source.start);
        let most = u64::from(most).min(bytes / PART_BYTES_MIN);
        if most < 2 || limits.fuel.is_some() {
            return Ok(None);
        }
        let permits = prepared.permits(limits, most).await.map_err(ExtractError::Call)?;
        if permits.is_empty() {
            return Ok(None);
        }
        let parts = parts(reader, source, permits.len() as u64)?.into_iter().zip(permits).collect();
        let (prepared, limits, source) = (prepared.clone(), limits.clone(), source.clone());
        let directory = directory.to_file()?;
        Ok(Some(Self { file: Arc::new(Whole { prepared, limits, directory, source }), parts }))
    }

    /// The answer to a [divisible](is_divisible) question. `None` if one instance has to give it: what the parts hold cannot be put
    /// together exactly, or something failed, which it explains.
    pub(super) async fn answer(self, question: &Question, budget: Budget) -> Option<Asked> {
        match question {
            Question::Query(query) => Some(of_component(self.merged(query, budget).await?, question)),
            question => self.joined(question, budget).await,
        }
    }

    async fn merged(self, query: &Query, budget: Budget) -> Option<Answered<component::Answer>> {
        let (begun, file) = (Instant::now(), Arc::clone(&self.file));
        let asked = self.each(|file, part, permit| {
            let query = query.clone();
            async move { file.prepared.extract_part(permit, &file.limits, file.directory()?, part, &query).await }
        });
        let (found, cost) = match asked.await? {
            Ok(found) => found,
            Err(deadline) => return Some(Err(deadline)),
        };
        let limits = rest_of(&file.limits, begun);
        let directory = file.directory().ok()?;
        let merging = file.prepared.merge_parts(&limits, directory, &file.source, query, &found, budget);
        match merging.await {
            Ok((answer @ (Ok(_) | Err(component::ExtractError::UnknownField(_))), last)) => {
                Some(Ok((answer, sum(cost, last))))
            }
            _ => None,
        }
    }

    async fn joined(self, question: &Question, budget: Budget) -> Option<Asked> {
        let asked = self.each(|file, part, permit| {
            let question = question.clone();
            async move { file.prepared.ask_part(permit, &file.limits, file.directory()?, part, &question, budget).await }
        });
        Some(asked.await?.map(|(answers, cost)| (joined(answers, budget), cost)))
    }

    /// Asks about each part, on this thread and others. `None` if one fails, but by its deadline.
    async fn each<T, F>(
        self,
        ask: impl Fn(Arc<Whole>, Source, PoolPermit) -> F,
    ) -> Option<Result<(Vec<T>, Cost), CallError>>
    where
        T: Send + 'static,
        F: Future<Output = Answered<T>> + Send + 'static,
    {
        let mut asked = self.parts.into_iter().map(|(part, permit)| ask(Arc::clone(&self.file), part, permit));
        let first = asked.next()?;
        let others = asked.map(Other::begin).collect::<Option<Vec<_>>>()?;
        tracing::debug!(parts = others.len() + 1, "asking about parts of a file");
        let first = first.await;
        let (mut answers, mut total) = (Vec::new(), Cost::default());
        for answered in once(Some(first)).chain(others.into_iter().map(Other::end)) {
            match answered? {
                Ok((Ok(answer), cost)) => {
                    answers.push(answer);
                    total = sum(total, cost);
                }
                Err(deadline @ CallError::Deadline(_)) => return Some(Err(deadline)),
                _ => return None,
            }
        }
        Some(Ok((answers, total)))
    }
}

impl Whole {
    fn directory(&self) -> Result<File, CallError> {
        self.directory.try_clone().map_err(CallError::Output)
    }
}

/// As many parts of about the same size, each of whole lines; fewer where lines are long.
fn parts(reader: &Reader, source: &Source, most: u64) -> Result<Vec<Source>, StoreError> {
    let step = (source.bytes - source.start) / most;
    let mut ends = (1..most).map(|part| reader.next_line(source.start + part * step)).collect::<Result<Vec<_>, _>>()?;
    ends.push(source.bytes);
    ends.dedup();
    let starts = once(source.start).chain(ends.iter().copied());
    Ok(starts.zip(&ends).map(|(start, end)| Source { start, bytes: *end, ..source.clone() }).collect())
}

/// The answer of a jq program from its answers about all parts, each of which has the results that may have room.
fn joined(parts: Vec<component::Answer>, budget: Budget) -> Result<Answer, QuestionError> {
    let (mut all, mut size) = (Answer::empty(0), Measure::text());
    for part in parts.into_iter().map(Answer::from) {
        for line in part.lines.split_inclusive('\n') {
            if all.cut.is_some() {
                break;
            }
            size.push(line);
            if all.lines.len() + line.len() > budget.bytes as usize || size.tokens() > u64::from(budget.tokens) {
                all.cut = Some(Cut::Budget(line.len() as u64));
            } else {
                all.lines.push_str(line);
                all.results += 1;
            }
        }
        all.cut = all.cut.or(part.cut);
        add_counts(&mut all, part);
    }
    unless_all_failed(all)
}

/// What is left of limits that began to count at a time.
pub(super) fn rest_of(limits: &Limits, begun: Instant) -> Limits {
    Limits { wall_time: limits.wall_time.saturating_sub(begun.elapsed()), ..limits.clone() }
}

/// The cost of two calls, whose instances may be there at the same time.
fn sum(one: Cost, other: Cost) -> Cost {
    Cost {
        time: one.time + other.time,
        memory_bytes: one.memory_bytes + other.memory_bytes,
        written_bytes: one.written_bytes + other.written_bytes,
    }
}

/// An instance that is asked on another thread. It ends within a tick when this is dropped.
struct Other<T: Send + 'static> {
    /// Dropped before the thread is waited for.
    _wanted: Arc<()>,
    asked: Beside<Option<Answered<T>>>,
}

impl<T: Send + 'static> Other<T> {
    /// `None` if no thread could be started.
    fn begin(asked: impl Future<Output = Answered<T>> + Send + 'static) -> Option<Self> {
        let (job, _wanted) = (Job::new(asked), Arc::new(()));
        let wanted = Arc::downgrade(&_wanted);
        let asked = Beside::start("lro-part", move || job.finish_while(|| wanted.strong_count() > 0))?;
        Some(Self { _wanted, asked })
    }

    /// Its answer; `None` after a panic.
    fn end(self) -> Option<Answered<T>> {
        self.asked.end().ok()?
    }
}
