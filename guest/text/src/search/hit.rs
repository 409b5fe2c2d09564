//! What a search answers.

use std::fmt::Write;

use lro_json::write::{array, push_string, string};

/// Bytes that are shown of the line of a hit: what surrounds the match.
pub const TEXT_BYTES_MAX: usize = 400;

/// Bytes that are shown of a line of context: its beginning.
pub(crate) const CONTEXT_BYTES_MAX: usize = 200;

/// Bytes of all hits of a search. Those that follow are counted, and [`Found::next`] says where to go on.
pub const FOUND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its number, from 1; in JSON Lines, the number of the record.
    pub line: u64,
    /// Bytes of the line before the match, in a line longer than 64 KiB.
    pub offset: Option<u64>,
    /// The line, at most [`TEXT_BYTES_MAX`] around the match; `…` stands for what is left out.
    pub text: String,
    /// Where it stands, from the outside in: headings, parents by indentation, file and hunk, definitions, time and level;
    /// in JSON Lines, one JSON Pointer to the string.
    pub place: Vec<String>,
    /// Lines before it.
    pub before: Vec<String>,
    /// Lines after it.
    pub after: Vec<String>,
    /// How well a passage answers, times 1,000; 0 if the search does not rank.
    pub score: u64,
}

impl Hit {
    /// Appends the hit as a JSON object: `{"line":…,"offset":…,"text":…,"where":[…],"before":[…],"after":[…],"score":…}`. Members
    /// without content are left out.
    pub fn write_json(&self, out: &mut String) {
        let _ = write!(out, "{{\"line\":{}", self.line);
        if let Some(offset) = self.offset {
            let _ = write!(out, ",\"offset\":{offset}");
        }
        out.push_str(",\"text\":");
        push_string(out, &self.text);
        for (key, texts) in [("where", &self.place), ("before", &self.before), ("after", &self.after)] {
            if !texts.is_empty() {
                let texts = array(texts.iter().map(|text| string(text)));
                let _ = write!(out, ",\"{key}\":{texts}");
            }
        }
        if self.score > 0 {
            let _ = write!(out, ",\"score\":{}", self.score as f64 / 1000.0);
        }
        out.push('}');
    }

    pub(crate) fn size(&self) -> usize {
        let texts = self.place.iter().chain(&self.before).chain(&self.after);
        size_of::<Self>() + self.text.len() + texts.map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }
}

/// The outcome of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Hits from the offset on, in the order of the text; ranked ones, best first.
    pub hits: Vec<Hit>,
    /// Lines, strings of records, or ranked passages, that match, all of them.
    pub matches: u64,
    /// Lines or records of the text.
    pub lines: u64,
    /// The offset of the first match behind the hits, if there are more.
    pub next: Option<u64>,
    /// Records of more than [`RECORD_BYTES_MAX`](super::RECORD_BYTES_MAX) bytes, and lines that are not JSON: they were not
    /// searched.
    pub skipped: u64,
    /// Whether a line was longer than 64 KiB: there, each match is a hit, or for several words each piece of 4 KiB that has
    /// them all.
    pub long_lines: bool,
    /// Whether passages were left out while ranking because too many matched: those are not among the best of the text so
    /// far, but may have been in the end.
    pub approximate: bool,
}
