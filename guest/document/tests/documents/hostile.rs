//! Documents that are cut, damaged, or made to take more than they should.

use std::fmt::Write;

use lro_document::{DocumentError, extract};
use proptest::prelude::*;

use crate::support::{LIMIT, archive, file, text_of, word, workbook};

const FILES: [&str; 9] = [
    "chromium.pdf",
    "reportlab.pdf",
    "columns.pdf",
    "openpyxl.xlsx",
    "odfpy.ods",
    "odfpy.odt",
    "odfpy.odp",
    "python-docx.docx",
    "python-pptx.pptx",
];

/// A PDF of these objects, the first of which is the catalog. `startxref` leads nowhere a reader could trust more.
fn pdf(objects: &[String]) -> Vec<u8> {
    let (mut text, mut offsets) = (String::from("%PDF-1.4\n"), Vec::new());
    for (index, object) in objects.iter().enumerate() {
        offsets.push(text.len());
        write!(text, "{} 0 obj\n{object}\nendobj\n", index + 1).unwrap();
    }
    let start = text.len();
    write!(text, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    offsets.iter().for_each(|offset| writeln!(text, "{offset:010} 00000 n ").unwrap());
    write!(text, "trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1).unwrap();
    text.into_bytes()
}

/// A PDF with one page of this content; `objects` are numbered from 5 on.
fn page(resources: &str, content: &str, objects: &[String]) -> Vec<u8> {
    let mut all = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 500 500]/Contents 4 0 R/Resources<<{resources}>>>>"),
        stream("", content),
    ];
    all.extend_from_slice(objects);
    pdf(&all)
}

fn stream(dictionary: &str, content: &str) -> String {
    format!("<<{dictionary}/Length {}>>\nstream\n{content}\nendstream", content.len())
}

const FONT: &str = "/Font<</F 5 0 R>>";

fn font() -> String {
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned()
}

#[test]
fn a_text_over_the_limit_is_refused_as_a_whole() {
    for name in FILES {
        let whole = extract(&file(name), LIMIT).unwrap().text;
        assert_eq!(extract(&file(name), whole.len()).unwrap().text, whole, "{name}");
        for limit in [whole.len() - 1, whole.len() / 2, 1, 0] {
            let refused = DocumentError::TooLarge { what: "bytes of text", limit: limit as u64 };
            assert_eq!(extract(&file(name), limit), Err(refused), "{name}");
        }
    }
}

#[test]
fn an_archive_that_unfolds_to_too_much_is_not_unfolded() {
    let content = vec![b' '; 64 << 20];
    let members: Vec<_> = ["word/document.xml", "a", "b", "c", "d"].map(|name| (name, content.as_slice())).to_vec();
    let bomb = archive(&members);
    assert!(bomb.len() < 1 << 20);
    let error = extract(&bomb, LIMIT).unwrap_err();
    assert_eq!(error, DocumentError::TooLarge { what: "bytes when unfolded", limit: 256 << 20 });
}

#[test]
fn a_member_that_unfolds_is_bounded_by_the_text_it_gives() {
    let one = "<w:p><w:r><w:t>text</w:t></w:r></w:p>".repeat(2 << 20);
    let error = extract(&word(&one), LIMIT).unwrap_err();
    assert_eq!(error, DocumentError::TooLarge { what: "bytes of text", limit: LIMIT as u64 });
    let row =
        format!("<w:tbl><w:tr>{}</w:tr></w:tbl>", "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>".repeat(1 << 20));
    assert_eq!(extract(&word(&row), LIMIT), Err(error));
}

#[test]
fn deep_nesting_of_xml_is_followed_without_a_stack() {
    let deep = format!("{}<w:p><w:t>inside</w:t></w:p>{}", "<w:tbl>".repeat(1 << 20), "</w:tbl>".repeat(1 << 20));
    assert!(text_of(&word(&deep)).contains("inside"));
}

#[test]
fn other_archives_are_not_read() {
    assert_eq!(extract(&archive(&[("a.txt", b"text")]), LIMIT), Err(DocumentError::Unknown));
    let drawing = archive(&[("mimetype", b"application/vnd.oasis.opendocument.graphics"), ("content.xml", b"<a/>")]);
    assert_eq!(extract(&drawing, LIMIT), Err(DocumentError::Unknown));
}

const OPEN_TEXT: &[u8] = b"application/vnd.oasis.opendocument.text";

#[test]
fn an_open_document_is_encrypted_when_its_manifest_says_so() {
    let manifest = br#"<manifest:file-entry><manifest:encryption-data manifest:checksum="x"/></manifest:file-entry>"#;
    let odt = archive(&[("mimetype", OPEN_TEXT), ("META-INF/manifest.xml", manifest), ("content.xml", b"\x01\x02")]);
    assert_eq!(extract(&odt, LIMIT), Err(DocumentError::Encrypted));
    let empty = archive(&[("mimetype", OPEN_TEXT), ("content.xml", b"<a/>")]);
    assert_eq!(extract(&empty, LIMIT), Err(DocumentError::Empty));
}

#[test]
fn a_text_that_ends_in_a_table_has_what_came() {
    let content =
        b"<text:p>before</text:p><t:table><t:row><t:table-cell><text:p>one</text:p></t:table-cell><t:table><text:p>two";
    let odt = archive(&[("mimetype", OPEN_TEXT), ("content.xml", content)]);
    assert_eq!(text_of(&odt), "before\n\n| one | two\n|---|\n\n");
}

#[test]
fn an_element_that_stands_for_many_spaces_is_a_few() {
    let spaces = r#"<text:s text:c="4294967295"/>"#.repeat(3);
    let content = format!("<text:p>a{spaces}b</text:p>");
    let odt = archive(&[("mimetype", OPEN_TEXT), ("content.xml", content.as_bytes())]);
    assert_eq!(text_of(&odt), format!("a{}b\n\n", " ".repeat(3_000)));
}

/// A presentation with slides at these targets, and these members.
fn presentation(targets: &[&str], members: &[(&str, &[u8])]) -> Vec<u8> {
    let ids: String = (0..targets.len()).map(|id| format!(r#"<p:sldId id="1" r:id="r{id}"/>"#)).collect();
    let relation =
        |(id, target): (usize, &&str)| format!(r#"<Relationship Id="r{id}" Type="x/slide" Target="{target}"/>"#);
    let relations: String = targets.iter().enumerate().map(relation).collect();
    let list = [("ppt/presentation.xml", ids.as_bytes()), ("ppt/_rels/presentation.xml.rels", relations.as_bytes())];
    archive(&[&list, members].concat())
}

#[test]
fn a_slide_that_is_listed_often_is_read_once() {
    let slide = b"<p:sp><a:p><a:r><a:t>once</a:t></a:r></a:p></p:sp>";
    let relations = br#"<Relationship Id="a" Type="x/notesSlide" Target="s.xml"/>"#;
    let members: [(&str, &[u8]); 2] = [("ppt/s.xml", slide), ("ppt/_rels/s.xml.rels", relations)];
    let targets = ["s.xml", "/ppt/s.xml", "../ppt/./s.xml", "s.xml"].repeat(5_000);
    assert_eq!(text_of(&presentation(&targets, &members)), "# Slide 1\n\nonce\n\n");
}

#[test]
fn slides_that_are_not_there_are_damage_and_no_slides_are_no_text() {
    let gone = extract(&presentation(&["../../../etc/passwd"], &[]), LIMIT);
    assert!(matches!(gone, Err(DocumentError::Damaged(_))), "{gone:?}");
    assert_eq!(extract(&presentation(&[], &[]), LIMIT), Err(DocumentError::Empty));
}

#[test]
fn strings_at_any_place_of_a_page_are_ordered_in_bounded_time() {
    // More strings than are ordered at a time, on lines that are neither prose nor a table.
    let mut content = String::from("BT /F 10 Tf\n");
    for number in 0_u32..120_000 {
        let (x, y) = (number.wrapping_mul(2_654_435_761) % 500, number.wrapping_mul(40_503) % 700);
        writeln!(content, "1 0 0 1 {x} {y} Tm (w) Tj").unwrap();
    }
    content.push_str("1 0 0 1 nan 1e39 Tm (w) Tj ET");
    let text = text_of(&page(FONT, &content, &[font()]));
    assert!(text.matches('w').count() >= 120_000, "every string once");
}

#[test]
fn pages_that_are_their_own_parents_end() {
    let own = pdf(&[
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[2 0 R 3 0 R]/Parent 3 0 R/Count 2>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/Contents 3 0 R>>".to_owned(),
    ]);
    assert_eq!(extract(&own, LIMIT), Err(DocumentError::Empty));
}

#[test]
fn a_form_that_draws_itself_ends() {
    let form = stream(
        "/Type/XObject/Subtype/Form/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>",
        "BT /F 9 Tf (again) Tj ET /X Do",
    );
    let document = page(&format!("{FONT}/XObject<</X 6 0 R>>"), "/X Do", &[font(), form]);
    let text = text_of(&document);
    assert_eq!(text.matches("again").count(), 16, "{text}");
}

#[test]
fn forms_that_draw_each_other_many_times_meet_a_limit() {
    let next = |number: usize| {
        let resources = format!("/Resources<</XObject<</X {} 0 R>>>>", number + 1);
        stream(&format!("/Type/XObject/Subtype/Form{resources}"), &"/X Do ".repeat(100))
    };
    let forms: Vec<String> = (5..15).map(next).collect();
    let document = page("/XObject<</X 5 0 R>>", "/X Do", &forms);
    let error = extract(&document, LIMIT).unwrap_err();
    assert_eq!(error, DocumentError::TooLarge { what: "operators", limit: 20_000_000 });
}

#[test]
fn operators_without_operands_do_nothing() {
    let all = "Tj TJ ' \" Td TD Tm T* Tf TL Tc Tw Tz Ts cm Do q Q Q BT ET";
    let content = format!("{all} /F 10 Tf (here) Tj {all}");
    assert!(text_of(&page(FONT, &content, &[font()])).contains("here"));
}

#[test]
fn nested_objects_of_a_pdf_end_in_an_error_or_in_text() {
    for depth in [100, 10_000, 1_000_000] {
        let nested = format!("<</A {}{}>>", "[".repeat(depth), "]".repeat(depth));
        let document = page(FONT, "BT /F 10 Tf (here) Tj ET", &[font(), nested]);
        if let Ok(extracted) = extract(&document, LIMIT) {
            assert!(extracted.text.contains("here"), "{depth}");
        }
    }
}

#[test]
fn a_sheet_of_two_far_cells_takes_no_room_for_those_between() {
    let rows = r#"<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>"#;
    let text = text_of(&workbook(rows));
    assert!(text.starts_with("{\"Orders\":[{\"A\":1},\n{\"XFD\":2}]"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_documents_give_an_error_or_a_bounded_text(name in prop::sample::select(FILES.to_vec()), cut in 0.0..1.0_f64, at in 0.0..1.0_f64, byte: u8) {
        let mut document = file(name);
        let index = (document.len() as f64 * at) as usize;
        document[index] = byte;
        let whole = extract(&document, LIMIT).map_or(0, |extracted| extracted.text.len());
        document.truncate((document.len() as f64 * cut) as usize);
        let beginning = extract(&document, LIMIT).map_or(0, |extracted| extracted.text.len());
        prop_assert!(whole.max(beginning) <= LIMIT);
    }
}
