//! Readers of records.

use std::convert::Infallible;

use lro_text::{Blanks, Error, Fault, Form, HEAD_BYTES_MAX, Hints, Reader, Report, recognize};

use crate::memory::{alone, peak};

/// Most memory of a reader, in bytes: 6 MiB, so that a policy stays under 8.
const MEMORY_MAX: usize = 6 * 1024 * 1024;

/// Bytes of a long line: 64 MB, ten times what a reader may have, or less where the compiler does not optimize.
const LONG_BYTES: usize = if cfg!(debug_assertions) { 20_000_000 } else { 64_000_000 };

/// Reads `before`, then `bytes` bytes of the repeated `piece`, then `after`; the report, and the bytes of the lines.
fn stream(form: &Form, before: &str, piece: &str, bytes: usize, after: &str) -> Result<(Report, u64), Fault> {
    let _alone = alone();
    let slice = piece.repeat(64 * 1024 / piece.len());
    let mut written = 0;
    let mut out = |lines: &[u8]| {
        written += lines.len() as u64;
        Ok::<(), Infallible>(())
    };
    let fault = |error| match error {
        Error::Text(error) => error.fault,
        Error::Output(never) => match never {},
    };
    let slices = std::iter::repeat_n(slice.as_str(), bytes / slice.len());
    let (result, most) = peak(|| {
        let mut reader = Reader::new(form);
        let pushed =
            std::iter::once(before).chain(slices).chain([after]).try_for_each(|slice| reader.push(slice, &mut out));
        pushed.and_then(|()| reader.finish(&mut out)).map_err(fault)
    });
    assert!(most < MEMORY_MAX, "{form:?}: {most} bytes");
    result.map(|report| (report, written))
}

const CSV: Form = delimited(false);
const SPACED: Form = delimited(true);

const fn delimited(spaced: bool) -> Form {
    Form::Delimited { delimiter: b',', header: true, blanks: Blanks { leading: spaced, trailing: spaced } }
}

#[test]
fn a_long_value_streams() {
    let long = LONG_BYTES / 65_536 * 65_536;
    for (form, before, piece, after) in [
        (Form::JsonValues, "{\"a\":\"", "abcdefgh", "\"}\n"),
        (Form::JsonWithin { start: 6, document: true }, "Text:\n[\"", "abcdefgh", "\"]\n"),
        (CSV, "a,b\n1,", "abcdefgh", "\n"),
        (CSV, "a,b\n1,\"", "abc,def\n", "\"\n"),
        (SPACED, "a, b\n1, x", "        ", "y\n"),
        (Form::PythonLiteral { document: true }, "['", "abcdefgh", "']"),
    ] {
        let (report, written) = stream(&form, before, piece, long, after).expect("records");
        assert_eq!(report.records, 1, "{form:?}");
        assert!(written > long as u64, "{form:?}");
    }
}

#[test]
fn spaces_around_delimiters_are_not_held() {
    let (report, written) = stream(&SPACED, "a, b\n1, ", "        ", LONG_BYTES, "x\n2, y\n").expect("records");
    assert_eq!((report.records, written), (2, 32));
}

#[test]
fn a_long_line_is_a_named_limit_elsewhere() {
    let forms = [
        Form::MarkdownTable,
        Form::RuledTable,
        Form::AlignedTable,
        Form::PaddedTable { columns: 3 },
        Form::KeyedBlocks { delimiter: b'=' },
        Form::YamlList,
    ];
    for form in forms {
        assert_eq!(stream(&form, "", "abcdefgh", LONG_BYTES, "").map(drop), Err(Fault::Line), "{form:?}");
    }
    assert_eq!(stream(&Form::YamlList, "- a: |\n", "    abc\n", LONG_BYTES, "").map(drop), Err(Fault::Item));
    assert_eq!(stream(&CSV, "", "abcdefgh", LONG_BYTES, "").map(drop), Err(Fault::FirstRow));
}

#[test]
fn a_long_cell_of_html_is_a_named_limit() {
    let html = |piece| stream(&Form::HtmlTable, "<table><tr><td>", piece, LONG_BYTES, "</table>").map(drop);
    assert_eq!(html("abcdefgh"), Err(Fault::Element));
    assert_eq!(html("<td>x"), Err(Fault::FirstRow));
    assert_eq!(html("<!-- -"), Err(Fault::Token));
    assert_eq!(html("<script>"), Err(Fault::End));
    assert_eq!(html("<tr><td>1"), Ok(()));
}

#[test]
fn many_columns() {
    assert_eq!(stream(&CSV, "", ",", 1_000_000, "\n").map(drop), Err(Fault::FirstRow));
    assert_eq!(stream(&Form::MarkdownTable, "", "|", 1_000_000, "\n|-|\n").map(drop), Ok(()));
    // More cells than columns stream into one array.
    let (report, _) = stream(&CSV, "a,b\n1,2\n", ",", 1_000_000, "\n").expect("records");
    assert_eq!((report.records, report.ragged), (2, 1));
    // Many names that are the same.
    let same = format!("{}\n", "a,".repeat(10_000));
    let (report, _) = stream(&CSV, &same, "1,2,3,4\n", 100_000, "\n").expect("records");
    assert_eq!(report.columns.len(), 10_001);
    assert_eq!(report.columns[9_999].name, "a_10000");
}

#[test]
fn long_names_before_short_cells() {
    let name = "n".repeat(1000);
    let (report, written) = stream(&CSV, &format!("{name},b\n"), "1,\n", 1_000_000, "").expect("records");
    assert!(written > report.records * 1000);
}

#[test]
fn unbalanced_and_deep() {
    assert_eq!(stream(&CSV, "a,b\n1,\"", "x,y\n", LONG_BYTES, "").map(drop), Err(Fault::OpenQuote));
    assert_eq!(stream(&Form::PythonLiteral { document: true }, "", "[", 1_000_000, "").map(drop), Err(Fault::Depth));
    assert!(matches!(stream(&Form::JsonValues, "", "[", 1_000_000, ""), Err(Fault::Json(_))));
    assert_eq!(stream(&Form::YamlList, "- a:\n  ", "- ", 1_000_000, "x\n").map(drop), Err(Fault::Depth));
    let (report, _) = stream(&CSV, "a,b\n", "\0,\0\n", 1_000_000, "").expect("records");
    assert!(report.records > 200_000);
}

/// Recognizing looks at a bounded part of any text.
#[test]
fn any_repeated_text_is_looked_at() {
    let pieces = [
        "[", "{", "(", "[[", "{\"a\":", "['", "- ", "- a:\n", "|", "|-", "+-", "a,", "\"", "\\", "a: {", ": [", "│",
        "─┬", "<td>", "<a", "<!--", "&", "&a", "a = b\n", "a: b\n", "a 1 ", "\n[\n", "\n", "\0",
    ];
    for piece in pieces {
        let text = piece.repeat(2 * HEAD_BYTES_MAX / piece.len());
        let form = recognize(&text, &Hints::default());
        // Whatever the reader makes of it, it does so in bounded memory.
        form.map(|form| stream(&form, "", piece, text.len(), ""));
    }
}
