//! Any bytes are a document with a bounded text, or an error. Behind a letter, they are the text of a document that needs an archive
//! around it: `w` of Word, `s` a slide, `n` its notes, `o` and `p` of OpenDocument, `l` the list of the slides.

#![no_main]

use std::io::{Cursor, Write};

use libfuzzer_sys::fuzz_target;
use lro_document::{DocumentError, Extracted, Form, extract};
use zip::write::{SimpleFileOptions, ZipWriter};

/// Most bytes of text.
const LIMIT: usize = 16 << 10;

const LIST: &[u8] = br#"<p:sldId r:id="1"/><p:sldId r:id="2"/>"#;
const RELATIONS: &[u8] = br#"<Relationship Id="1" Type="x/slide" Target="slide.xml"/>"#;
const NOTES: &[u8] = br#"<Relationship Id="1" Type="x/notesSlide" Target="notes.xml"/>"#;
const SLIDE: &[u8] = b"<p:sp><a:p><a:t>slide</a:t></a:p></p:sp>";

fuzz_target!(|bytes: &[u8]| {
    let document = match bytes.split_first() {
        Some((b'w', text)) => archive(&[("word/document.xml", text)]),
        Some((b's', text)) => slides(LIST, text, SLIDE),
        Some((b'n', text)) => slides(LIST, SLIDE, text),
        Some((b'l', text)) => slides(text, SLIDE, SLIDE),
        Some((b'o', text)) => open_document(b"text", text),
        Some((b'p', text)) => open_document(b"presentation", text),
        _ => bytes.to_vec(),
    };
    let Ok(Extracted { form, text }) = extract(&document, LIMIT) else { return };
    assert!(text.len() <= LIMIT);
    match form {
        Form::Markdown => assert!(!text.trim().is_empty()),
        Form::Records => assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| value.is_object())),
    }
    let again = extract(&document, LIMIT).map(|extracted| extracted.text);
    assert_eq!(again.as_ref(), Ok(&text), "the same text each time");
    let refused = extract(&document, text.len() - 1);
    assert!(matches!(refused, Err(DocumentError::TooLarge { .. })), "{refused:?}");
});

fn slides(list: &[u8], slide: &[u8], notes: &[u8]) -> Vec<u8> {
    archive(&[
        ("ppt/presentation.xml", list),
        ("ppt/_rels/presentation.xml.rels", RELATIONS),
        ("ppt/slide.xml", slide),
        ("ppt/_rels/slide.xml.rels", NOTES),
        ("ppt/notes.xml", notes),
    ])
}

fn open_document(kind: &[u8], content: &[u8]) -> Vec<u8> {
    let media_type = [b"application/vnd.oasis.opendocument.", kind].concat();
    archive(&[("mimetype", &media_type), ("content.xml", content)])
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, SimpleFileOptions::default()).expect("a name");
        writer.write_all(content).expect("in memory");
    }
    writer.finish().expect("in memory").into_inner()
}
