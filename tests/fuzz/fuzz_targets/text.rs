//! What is recognized in the whole of a text is read; a line is JSON; the slices do not matter; JSON tables likewise.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use lro_text::{Blanks, Error, Form, Hints, Layout, ReadError, Reader, Report, Tabular, recognize, tabular};
use serde_json::value::RawValue;

fn read(form: &Form, text: &str, slice_bytes: usize) -> Result<(Vec<u8>, Report), ReadError> {
    let mut lines = Vec::new();
    let mut out = |bytes: &[u8]| {
        lines.extend_from_slice(bytes);
        Ok::<(), Infallible>(())
    };
    let text_error = |error| match error {
        Error::Text(error) => error,
        Error::Output(never) => match never {},
    };
    let mut reader = Reader::new(form);
    let mut rest = text;
    while !rest.is_empty() {
        let (slice, after) = rest.split_at(rest.ceil_char_boundary(slice_bytes.min(rest.len())));
        reader.push(slice, &mut out).map_err(text_error)?;
        rest = after;
    }
    let report = reader.finish(&mut out).map_err(text_error)?;
    Ok((lines, report))
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let recognized = recognize(text, &Hints { complete: true, ..Hints::default() });
    let forms = [
        Form::JsonValues,
        Form::JsonWithin { start: 0, document: seed & 1 == 0 },
        Form::Delimited { delimiter: b',', header: seed & 1 == 0, blanks: Blanks::default() },
        Form::Delimited {
            delimiter: b',',
            header: true,
            blanks: Blanks { leading: seed & 2 == 0, trailing: seed & 4 == 0 },
        },
        Form::MarkdownTable,
        Form::RuledTable,
        Form::AlignedTable,
        Form::PaddedTable { columns: 3 },
        Form::KeyedBlocks { delimiter: b'=' },
        Form::KeyedBlocks { delimiter: b':' },
        Form::KeyedBlocks { delimiter: b'|' },
        Form::PythonLiteral { document: seed & 1 == 0 },
        Form::YamlList,
        Form::HtmlTable,
        Form::XmlElements { path: "a/b".into() },
    ];
    for form in forms.iter().chain(&recognized) {
        let whole = read(form, text, usize::MAX);
        assert_eq!(whole, read(form, text, usize::from(seed) + 1), "{form:?}");
        assert!(whole.is_ok() || Some(form) != recognized.as_ref(), "{form:?}: {whole:?}");
        let Ok((lines, report)) = whole else { continue };
        let lines = String::from_utf8(lines).expect("UTF-8");
        assert_eq!(lines.lines().count() as u64, report.records);
        for line in lines.lines() {
            serde_json::from_str::<&RawValue>(line).expect("a line is JSON");
        }
    }
    let names = vec!["a".to_owned(), "b".to_owned()];
    let layouts = [Layout::Rows(names.clone()), Layout::HeaderRow(names), Layout::Parallel];
    let paths = [vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]];
    let tables = paths.iter().flat_map(|path| layouts.iter().map(|layout| (path.clone(), layout.clone())));
    for table in tables.map(|(path, layout)| Tabular { path, layout }).chain(tabular(text)) {
        let form = Form::Tabular(table);
        // Which fault is named may depend on the slices.
        let lines = |slice_bytes| read(&form, text, slice_bytes).map(|(lines, _)| lines).unwrap_or_default();
        assert_eq!(lines(usize::MAX), lines(usize::from(seed) + 1), "{form:?}");
        for line in String::from_utf8(lines(usize::MAX)).expect("UTF-8").lines() {
            serde_json::from_str::<&RawValue>(line).expect("a line is JSON");
        }
    }
});
