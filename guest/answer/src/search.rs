//! Searches texts and records, one source after another.

use lro_json::write::string;
use lro_text::search::{
    self as text, Found, Hit, LINE_BYTES_MAX, OVERLAP_BYTES, PIECE_BYTES, RECORD_BYTES_MAX, RecordSearcher,
    SearchError, Searcher,
};

use crate::answer::Lines;
use crate::bindings::exports::lro::filter::lro_query::{Pattern, Search};
use crate::bindings::lro::filter::types::FileKind;
use crate::{Answer, Budget, ExtractError, Read, ReadSource, Source, lines};

/// Default number of hits: 20.
pub const HITS_DEFAULT: u32 = 20;

/// What the sources have in common.
#[derive(Debug)]
struct Page<'a> {
    sources: &'a [Source],
    lines: Lines,
    matches: u64,
    examined: u64,
    skipped: u64,
    has_long_lines: bool,
    is_approximate: bool,
}

pub(crate) fn run(
    sources: &[Source],
    search: &Search,
    budget: Budget,
    read: &mut ReadSource<'_>,
) -> Result<Answer, ExtractError> {
    let wanted = wanted(search)?;
    let lines = Lines::new(budget);
    let mut page =
        Page { sources, lines, matches: 0, examined: 0, skipped: 0, has_long_lines: false, is_approximate: false };
    if wanted.rank {
        page.rank(&wanted, read)?;
    } else {
        page.search(wanted, read)?;
    }
    Ok(page.answer(search.count))
}

impl Page<'_> {
    /// Searches for hits in the order of the sources.
    fn search(&mut self, mut wanted: text::Search, read: &mut ReadSource<'_>) -> Result<(), ExtractError> {
        for (index, source) in self.sources.iter().enumerate() {
            let found = find(source, &wanted, &mut |offset, length| read(index, offset, length))?;
            self.count(&found);
            found.hits.iter().for_each(|hit| self.push(source, hit));
            wanted.offset = wanted.offset.saturating_sub(found.matches);
            wanted.limit -= u32::try_from(found.hits.len()).unwrap_or(wanted.limit).min(wanted.limit);
            // Hits of the next source do not follow those that are here.
            wanted.count_only |= found.next.is_some() || self.lines.is_full();
        }
        Ok(())
    }

    /// Searches for the best passages of all sources.
    fn rank(&mut self, wanted: &text::Search, read: &mut ReadSource<'_>) -> Result<(), ExtractError> {
        Searcher::new(wanted).map_err(refusal)?;
        let skipped = usize::try_from(wanted.offset).unwrap_or(usize::MAX);
        let kept = skipped.saturating_add(wanted.limit as usize);
        let each = text::Search { offset: 0, limit: u32::try_from(kept).unwrap_or(u32::MAX), ..wanted.clone() };
        let mut best: Vec<(&Source, Hit)> = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            let found = find(source, &each, &mut |offset, length| read(index, offset, length))?;
            self.count(&found);
            best.extend(found.hits.into_iter().map(|hit| (source, hit)));
            best.sort_by_key(|(_, hit)| std::cmp::Reverse(hit.score));
            best.truncate(kept);
        }
        best.iter().skip(skipped).for_each(|(source, hit)| self.push(source, hit));
        Ok(())
    }

    fn count(&mut self, found: &Found) {
        self.matches += found.matches;
        self.examined += found.lines;
        self.skipped += found.skipped;
        self.has_long_lines |= found.long_lines;
        self.is_approximate |= found.approximate;
    }

    fn push(&mut self, source: &Source, hit: &Hit) {
        let mut json = String::new();
        hit.write_json(&mut json);
        if let ([_, _, ..], Some(members)) = (self.sources, json.strip_prefix('{')) {
            json = format!("{{\"section\":{},{members}", string(&source.section));
        }
        self.lines.push(&json);
    }

    fn answer(mut self, count: bool) -> Answer {
        let mut total = self.matches;
        if count {
            self.lines.push(&format!("{{\"count\":{total}}}"));
            total = 1;
        }
        let mut notes = Vec::new();
        if self.skipped > 0 {
            let skipped = self.skipped;
            notes.push(format!(
                "{skipped} records were not searched: they have more than {RECORD_BYTES_MAX} bytes, or are not JSON"
            ));
        }
        if self.has_long_lines {
            notes.push(format!(
                "a line has more than {LINE_BYTES_MAX} bytes: there, each match is a hit and counts, or for several words each \
                 piece of {PIECE_BYTES} bytes that has them all, and a match of more than {OVERLAP_BYTES} bytes may be missed; \
                 read on with `from`, one less than `line`, and `offset` of the hit in `lro_read`"
            ));
        }
        if self.is_approximate {
            notes.push("more passages match than can be ranked at once: some of the best may be missing".to_owned());
        }
        Answer { notes, ..self.lines.answer(total, self.matches, self.examined) }
    }
}

fn wanted(search: &Search) -> Result<text::Search, ExtractError> {
    let limit = search.limit.unwrap_or(HITS_DEFAULT);
    if limit == 0 {
        return Err(ExtractError::Invalid("limit: must be at least 1".to_owned()));
    }
    Ok(text::Search {
        pattern: match search.pattern.clone() {
            Pattern::Words(words) => text::Pattern::Words(words),
            Pattern::Literal(literal) => text::Pattern::Literal(literal),
            Pattern::Regex(regex) => text::Pattern::Regex(regex),
        },
        ignore_case: search.ignore_case,
        before: search.before,
        after: search.after,
        limit,
        offset: search.offset,
        count_only: search.count,
        rank: search.rank,
    })
}

/// Searches one source.
fn find(source: &Source, search: &text::Search, read: &mut Read<'_>) -> Result<Found, ExtractError> {
    match source.kind {
        FileKind::Text => {
            let mut searcher = Searcher::new(search).map_err(refusal)?;
            lines::each_slice(source, read, |slice| searcher.push(slice))?;
            Ok(searcher.finish())
        }
        FileKind::Records | FileKind::Value => {
            let mut searcher = RecordSearcher::new(search).map_err(refusal)?;
            lines::each_slice(source, read, |slice| searcher.push(slice))?;
            Ok(searcher.finish())
        }
        FileKind::Bytes => Err(ExtractError::Invalid(format!("source: {} has bytes, which have no text", source.name))),
    }
}

fn refusal(error: SearchError) -> ExtractError {
    match error {
        SearchError::TooLarge { .. } => ExtractError::Limit(format!("regex-bytes: {error}")),
        error => ExtractError::Invalid(error.to_string()),
    }
}
