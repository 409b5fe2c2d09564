//! The splitter as native code that writes to a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use lro_jsonl::{FileReport, Options, Output, Section, Shape, Splitter, Stream, Target};

struct OneFile(File);

impl Output for OneFile {
    type Error = io::Error;

    fn begin(&mut self, _: Target<'_>) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, _: Stream, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn end(&mut self, _: Stream, _: FileReport) -> io::Result<()> {
        Ok(())
    }
}

/// Splits `/results` of a document, given in slices as a policy reads them, into one file.
pub(crate) fn split(path: &Path, text: &str, profile: bool) {
    let options = Options {
        sections: vec![Section { pointer: "/results".to_owned(), shape: Shape::Elements }],
        inline_bytes: 512,
        inline_total: 320,
        profile,
        ..Options::default()
    };
    let mut splitter = Splitter::new(options, OneFile(File::create(path).expect("a file")));
    let mut rest = text;
    while !rest.is_empty() {
        let (slice, next) = rest.split_at(rest.floor_char_boundary(crate::BLOCK_BYTES));
        splitter.push(slice).expect("a JSON document");
        rest = next;
    }
    splitter.finish().expect("a whole document");
}
