//! Documents for tests: those of real programs, and archives made from parts.

use std::io::{Cursor, Read, Write};

use lro_document::extract;
use zip::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

/// Most bytes of text.
pub(crate) const LIMIT: usize = 1 << 20;

/// A file that `files/make.py` has made.
pub(crate) fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/files/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// An archive of these members.
pub(crate) fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A Word document with this body.
pub(crate) fn word(body: &str) -> Vec<u8> {
    archive(&[("word/document.xml", format!("<w:document><w:body>{body}</w:body></w:document>").as_bytes())])
}

/// A workbook of Excel whose first sheet, `Orders`, has these rows.
pub(crate) fn workbook(rows: &str) -> Vec<u8> {
    const NAMESPACE: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let sheet = format!(r#"<worksheet xmlns="{NAMESPACE}"><sheetData>{rows}</sheetData></worksheet>"#);
    let mut original = ZipArchive::new(Cursor::new(file("openpyxl.xlsx"))).unwrap();
    let mut members = Vec::new();
    for index in 0..original.len() {
        let mut member = original.by_index(index).unwrap();
        let mut content = Vec::new();
        member.read_to_end(&mut content).unwrap();
        let name = member.name().unwrap().into_owned();
        let content = if name == "xl/worksheets/sheet1.xml" { sheet.clone().into_bytes() } else { content };
        members.push((name, content));
    }
    let members: Vec<_> = members.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    archive(&members)
}

/// The text of a document.
pub(crate) fn text_of(document: &[u8]) -> String {
    extract(document, LIMIT).unwrap().text
}
