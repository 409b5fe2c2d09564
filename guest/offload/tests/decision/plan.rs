//! What is planned for the parts of a result: what stays, what shares files, and which sections and texts a document has.

use lro_jsonl::SURVEY_BYTES_MAX;
use lro_offload::bindings::lro::filter::types::{
    DecisionMode, ImageMode, PlannedSection, SectionRule, SectionShape, Settings,
};
use lro_offload::{PlannedPart, Wish};
use lro_text::{HEAD_BYTES_MAX, PARALLEL_BYTES_MAX};

use crate::support::{Parts, bytes, call, in_words, settings, tokens};

/// The planned sections of each text: pointer, shape and name.
fn planned_with(settings: Settings, texts: &[String]) -> Vec<Vec<(String, SectionShape, String)>> {
    let parts = texts.iter().fold(Parts::default(), |parts, text| parts.text(text));
    let sections = |part: PlannedPart| match part {
        PlannedPart::Sections(sections) => {
            let plain = |PlannedSection { pointer, shape, name }| (pointer, shape, name);
            sections.into_iter().map(plain).collect()
        }
        other => panic!("{other:?}"),
    };
    crate::support::planned(&call(settings), &parts, &[]).into_iter().map(sections).collect()
}

fn planned(text: String) -> Vec<(String, SectionShape, String)> {
    planned_with(settings(), &[text]).remove(0)
}

fn string(pointer: &str, name: &str) -> (String, SectionShape, String) {
    (pointer.to_owned(), SectionShape::Value, name.to_owned())
}

fn elements(pointer: &str, name: &str) -> (String, SectionShape, String) {
    (pointer.to_owned(), SectionShape::Elements, name.to_owned())
}

fn lines(count: usize) -> String {
    "a line of the log\\n".repeat(count)
}

fn rows(count: usize) -> String {
    let rows: Vec<String> = (0..count).map(|id| format!(r#"{{"id":{id},"name":"row {id}"}}"#)).collect();
    format!("[{}]", rows.join(","))
}

#[test]
fn strings_that_are_texts_are_planned_under_their_keys() {
    let (log, rows) = (lines(30_000), rows(900));
    assert_eq!(planned(format!(r#"{{"stdout":"{log}","stderr":"","exit_code":0}}"#)), [string("/stdout", "stdout")]);
    assert_eq!(
        planned(format!(r#"{{"ok":true,"content":[{{"type":"text","text":"{log}"}}]}}"#)),
        [string("/content/0/text", "text")]
    );
    assert_eq!(planned(format!(r#"[{{"type":"text","text":"{log}"}}]"#)), [string("/0/text", "text")]);
    assert_eq!(planned(format!(r#"["{log}"]"#)), [string("/0", "text")]);
    assert_eq!(
        planned(format!(r#"{{"items":{rows},"log":"{log}"}}"#)),
        [elements("/items", "items"), string("/log", "log")]
    );
    // Half of a small result.
    assert_eq!(planned(format!(r#"{{"status":200,"body":"{}"}}"#, lines(80))), [string("/body", "body")]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_json() {
    let rows = rows(900);
    assert_eq!(planned(format!("\u{feff}{rows}")), [elements("", "records")]);
    assert_eq!(planned(format!("\u{feff}{{\"items\":{rows}}}")), [elements("/items", "items")]);
}

#[test]
fn other_strings_stay_where_they_are() {
    let (log, rows) = (lines(2_000), rows(900));
    let record = format!(r#"{{"id":1,"log":"{log}"}}"#);
    assert_eq!(planned(format!("[{record},{record},{record},{record}]")), [elements("", "records")]);
    // Neither long nor most of the result.
    assert_eq!(planned(format!(r#"{{"items":{rows},"note":"{}"}}"#, lines(100))), [elements("/items", "items")]);
    // What the settings name stays in the descriptor, or decides alone.
    let document = format!(r#"{{"page":{{"note":"{log}"}},"items":{rows}}}"#);
    for key in ["page", "/page/note"] {
        let settings = Settings { inline_keys: vec![key.to_owned()], ..settings() };
        assert_eq!(planned_with(settings, std::slice::from_ref(&document)), [[elements("/items", "items")]], "{key}");
    }
    let settings = with_items();
    assert_eq!(planned_with(settings, &[document]), [[elements("/items", "items")]]);
}

/// More would be more files than a host allows: the longest are texts.
#[test]
fn a_result_has_a_few_texts() {
    let document = |key: &str| {
        let members: Vec<String> =
            (0..15).map(|number| format!(r#""{key}{number}":"{}""#, lines(600 + number))).collect();
        format!("{{{},\"n\":1}}", members.join(","))
    };
    let found = planned_with(settings(), &[document("a"), document("b")]);
    let names = |sections: &[(String, SectionShape, String)]| -> Vec<String> {
        sections.iter().map(|(_, _, name)| name.clone()).collect()
    };
    assert_eq!(names(&found[0]), ["a14", "a13", "a12", "a11", "a10", "a9"]);
    assert_eq!(names(&found[1]), Vec::<String>::new());
}

/// Settings that name the section `items`.
fn with_items() -> Settings {
    let rule = SectionRule {
        key: "items".to_owned(),
        filename_prefix: None,
        schema: None,
        summaries: Vec::new(),
        recipes: Vec::new(),
    };
    Settings { sections: vec![rule], ..settings() }
}

/// What is planned with these settings, in a few words.
fn plan_of(settings: Settings, parts: &Parts) -> Vec<String> {
    in_words(&call(settings), parts, &[])
}

/// How many parts stay.
fn kept(settings: Settings, parts: &Parts) -> usize {
    plan_of(settings, parts).iter().filter(|word| *word == "keep").count()
}

/// A result that has something to write, and what else it has.
fn large() -> Parts {
    Parts::default().text("x".repeat(5_000))
}

#[test]
fn what_is_small_stays_beside_what_is_written() {
    let of = |length: usize| "y".repeat(length);
    assert_eq!(plan_of(settings(), &large().text(of(512))), ["text", "keep"]);
    assert_eq!(plan_of(settings(), &large().text(of(513))), ["text", "text"]);
    assert_eq!(plan_of(settings(), &large().text(of(512)).so_far(1)), ["text", "text"]);
    let structured = |length: usize| format!("\"{}\"", of(length - 2));
    assert_eq!(plan_of(settings(), &large().structured(structured(512))), ["text", "keep"]);
    assert_eq!(plan_of(settings(), &large().structured(structured(513))), ["text", "[]"]);
    assert_eq!(plan_of(settings(), &large().blocks(1, structured(512))), ["text", "keep"]);
    assert_eq!(plan_of(settings(), &large().blocks(1, structured(513))), ["text", "[]"]);
    assert_eq!(plan_of(settings(), &large().meta("note", of(512))), ["text", "keep"]);
    assert_eq!(plan_of(settings(), &large().meta("note", of(513))), ["text", "text"]);
    // Where everything is written, so are small texts and data, but not what only stands around them.
    let always = || Settings { mode: DecisionMode::Always, ..settings() };
    assert_eq!(
        plan_of(always(), &large().text("y").structured("1").blocks(1, "{}").meta("note", "1")),
        ["text", "text", "[]", "keep", "keep"]
    );
}

#[test]
fn small_texts_and_blocks_stay_while_they_are_few() {
    for (count, most) in [(8, 8), (9, 0)] {
        assert_eq!(kept(settings(), &large().texts(count, "a remark")), most);
        assert_eq!(kept(settings(), &large().blocks(count, "{}")), most);
    }
    // Texts and blocks are counted apart.
    assert_eq!(kept(settings(), &large().texts(8, "a remark").blocks(8, "{}")), 16);
    assert_eq!(kept(settings(), &large().texts(1, "a remark").blocks(9, "{}")), 1);
    assert_eq!(kept(settings(), &large().texts(9, "a remark").blocks(1, "{}")), 1);
    // Together they have at most the threshold, or what one of them may have where that is more.
    assert_eq!(kept(settings(), &large().texts(4, [b'y'; 250])), 4);
    assert_eq!(kept(settings(), &large().texts(4, [b'y'; 250]).text("y")), 0);
    let low = || Settings { threshold: bytes(10), ..settings() };
    assert_eq!(kept(low(), &large().texts(2, [b'y'; 256])), 2);
    assert_eq!(kept(low(), &large().texts(2, [b'y'; 257])), 0);
    // Bytes may be up to seven tenths as many tokens.
    let in_tokens = |amount| Settings { threshold: tokens(amount), ..settings() };
    assert_eq!(kept(in_tokens(700), &large().texts(2, [b'y'; 500])), 2);
    assert_eq!(kept(in_tokens(699), &large().texts(2, [b'y'; 500])), 0);
}

#[test]
fn bytes_stay_while_there_is_room() {
    let zip = |parts: Parts, length: usize| parts.binary("application/zip", vec![7; length]);
    // 600 bytes are 800 of base64.
    assert_eq!(plan_of(settings(), &zip(zip(zip(large(), 600), 150), 1)), ["text", "keep", "keep", "bytes"]);
    // One that does not fit leaves the room to others.
    assert_eq!(plan_of(settings(), &zip(zip(large(), 751), 750)), ["text", "bytes", "keep"]);
    let always = Settings { mode: DecisionMode::Always, ..settings() };
    assert_eq!(plan_of(always, &zip(large(), 1)), ["text", "bytes"]);
    // Of many none stays.
    let many = |count: usize| (0..count).fold(large(), |parts, _| zip(parts, 1));
    assert_eq!(kept(settings(), &many(8)), 8);
    assert_eq!(kept(settings(), &many(9)), 0);
    // Images are not among them, unless they are bytes like others.
    let image = |parts: Parts| parts.binary("image/png", [0; 3]);
    assert_eq!(kept(settings(), &image(many(8))), 9);
    assert_eq!(kept(Settings { images: ImageMode::Offload, ..settings() }, &image(many(7))), 8);
    assert_eq!(kept(Settings { images: ImageMode::Offload, ..settings() }, &image(many(8))), 0);
    assert_eq!(plan_of(Settings { images_max: 1, ..settings() }, &image(image(large()))), ["text", "keep", "bytes"]);
}

#[test]
fn parts_that_are_alike_share_files_when_they_are_many() {
    let count = |parts: &Parts, word: &str| plan_of(settings(), parts).iter().filter(|found| *found == word).count();
    let texts = |count| Parts::default().texts(count, "x".repeat(600));
    assert_eq!(count(&texts(8), "text"), 8);
    assert_eq!((count(&texts(9), "text"), count(&texts(9), "joins 0")), (1, 8));
    let blocks = |count| Parts::default().blocks(count, format!("{{\"uri\":\"{}\"}}", "x".repeat(600)));
    assert_eq!(count(&blocks(8), "[]"), 8);
    assert_eq!((count(&blocks(9), "[value `` blocks]"), count(&blocks(9), "joins 0")), (1, 8));
    let zips = |count| (0..count).fold(Parts::default(), |parts, _| parts.binary("application/zip", [7; 900]));
    assert_eq!(count(&zips(16), "bytes"), 16);
    assert_eq!((count(&zips(17), "bytes"), count(&zips(17), "joins 0")), (1, 16));
    // Each kind has a separate file.
    let all = texts(9).blocks(9, format!("{{\"uri\":\"{}\"}}", "x".repeat(600)));
    assert_eq!((count(&all, "joins 0"), count(&all, "joins 9")), (8, 8));
}

#[test]
fn json_texts_are_the_records_of_one_section() {
    let record = |length: usize| format!("{{\"id\":1,\"text\":\"{}\"}}", "y".repeat(length - 18));
    assert_eq!(record(600).len(), 600);
    let plan = |parts: &Parts| plan_of(settings(), parts);
    assert_eq!(plan(&Parts::default().text(record(1_500))), ["[value `/text` text]"]);
    assert_eq!(plan(&Parts::default().texts(2, record(1_500))), ["[value `` records]", "joins 0"]);
    // A longer one is a document, and so is one with a name.
    assert_eq!(
        plan(&Parts::default().text(record(16 * 1_024)).text(record(900)).text(record(16 * 1_024 + 1))),
        ["[value `` records]", "joins 0", "[value `/text` text]"]
    );
    assert_eq!(
        plan(&Parts::default().text(record(1_500)).named("a.json").text(record(1_500))),
        ["[value `/text` text]", "[value `/text` text-2]"]
    );
    // Arrays of objects are put together, arrays of other values are not.
    let array = |element: &str| format!("[{}{element}]", format!("{element},").repeat(200));
    let objects = array(r#"{"id":1}"#);
    assert_eq!(plan(&Parts::default().text(&objects)), ["[elements `` records]"]);
    assert_eq!(
        plan(&Parts::default().text(&objects).text(format!("  [ {}", &objects[1..]))),
        ["[elements `` records]", "joins 0"]
    );
    assert_eq!(plan(&Parts::default().texts(2, array("12345"))), ["[value `` records]", "joins 0"]);
    // With sections that the settings name, each is a document.
    let named = with_items();
    assert_eq!(
        plan_of(named, &Parts::default().texts(2, record(1_500))),
        ["[elements `/items` items]", "[elements `/items` items-2]"]
    );
}

#[test]
fn many_documents_are_records_and_a_few_share_the_files() {
    let rows = rows(900);
    let document = |tables: usize| {
        let tables: Vec<String> = (0..tables).map(|number| format!("\"t{number}\":{rows}")).collect();
        format!("{{\"ok\":true,{}}}", tables.join(","))
    };
    let sections = |texts: usize, tables: usize| -> Vec<usize> {
        let found = crate::support::planned(&call(settings()), &Parts::default().texts(texts, document(tables)), &[]);
        let sections = |part| if let PlannedPart::Sections(sections) = part { sections.len() } else { 0 };
        found.into_iter().map(sections).collect()
    };
    assert_eq!(sections(1, 40), [32]);
    assert_eq!(sections(3, 40), [32; 3]);
    // 96 files in all.
    assert_eq!(sections(4, 40), [24; 4]);
    assert_eq!(sections(8, 40), [12; 8]);
    assert_eq!(sections(9, 2), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Parts without sections take none of them.
    let beside = Parts::default().text(document(40)).texts(3, "x".repeat(600));
    assert_eq!(plan_of(settings(), &beside)[0].matches("elements").count(), 32);
    // What is small or structured is not among the records.
    let others = Parts::default().texts(9, document(2)).text("a remark").structured(document(1));
    assert_eq!(plan_of(settings(), &others)[9..], ["keep", "[elements `/t0` t0]"]);
    // Structured content is not counted among the texts, and stays a document.
    let nine = Parts::default().texts(8, document(1)).structured(document(1));
    assert!(plan_of(settings(), &nine).iter().all(|word| word.starts_with("[elements `/t0`")));
}

#[test]
fn a_table_in_json_is_records_of_its_own() {
    let row = "[1,\"two\",3.5]";
    let table = |rows: usize, more: &str| {
        format!("{{\"columns\":[\"id\",\"name\",\"price\"],\"rows\":[{}{row}]{more}}}", format!("{row},").repeat(rows))
    };
    let columns = "JsonColumns records";
    let one = |settings, text: &str| plan_of(settings, &Parts::default().text(text)).remove(0);
    assert_eq!(one(settings(), &table(900, "")), columns);
    assert_eq!(plan_of(settings(), &Parts::default().structured(table(900, "")))[0], columns);
    // What the settings name, or another large member, would be out of reach.
    let document = "[elements `/rows` rows]";
    assert_eq!(one(Settings { inline_keys: vec!["total".to_owned()], ..settings() }, &table(900, "")), document);
    assert_eq!(one(Settings { session_key: Some("session".to_owned()), ..settings() }, &table(900, "")), document);
    let beside = format!(",\"notes\":{}", rows(900));
    assert_eq!(one(settings(), &table(900, &beside)), "[elements `/rows` rows, elements `/notes` notes]");
    // A small one has no section; a larger one has its rows.
    assert_eq!(one(settings(), &table(90, "")), columns);
    assert_eq!(one(settings(), &table(2_000, "")), columns);
    let long = format!("{{\"columns\":[\"id\",\"text\"],\"rows\":[[1,\"{}\"]]}}", "y".repeat(20_000));
    assert_eq!(one(settings(), &long), "[value `/rows/0/1` rows]");
    // Two are records of one section, as other JSON texts are.
    let two = Parts::default().texts(2, table(90, ""));
    assert_eq!(plan_of(settings(), &two), ["[value `` records]", "joins 0"]);
    // Columns side by side, which their reader holds.
    let parallel = |bytes: usize| {
        let columns: Vec<String> = (0..500).map(|number| format!("\"c{number}\":[{}1]", "1,".repeat(1_000))).collect();
        let text = format!("{{{}}}", columns.join(","));
        format!("{text}{}", " ".repeat(bytes.saturating_sub(text.len())))
    };
    assert_eq!(one(settings(), &parallel(0)), columns);
    assert_eq!(one(settings(), &parallel(PARALLEL_BYTES_MAX)), columns);
    assert_ne!(one(settings(), &parallel(PARALLEL_BYTES_MAX + 1)), columns);
    assert_ne!(plan_of(settings(), &Parts::default().text(parallel(0)).so_far(9))[0], columns);
}

#[test]
fn texts_with_records_are_recognized_where_they_have_a_file_of_their_own() {
    let csv = format!("id,name\n{}", "1,a\n".repeat(400));
    let one = plan_of(settings(), &Parts::default().text(&csv)).remove(0);
    assert!(one.contains("Delimited") && one.ends_with(" records"), "{one}");
    let nine = plan_of(settings(), &Parts::default().texts(9, &csv));
    assert_eq!((nine[0].as_str(), nine[8].as_str()), ("text", "joins 0"));
    // Only texts of the result, not what stands around them.
    assert_eq!(plan_of(settings(), &Parts::default().meta("note", &csv)), ["text"]);
    assert_eq!(plan_of(settings(), &Parts::default().structured("x".repeat(2_000))), ["text"]);
}

#[test]
fn the_cursor_of_a_page_is_written_with_the_page() {
    for name in ["nextCursor", "next_cursor"] {
        assert_eq!(plan_of(settings(), &large().meta(name, "\"abc\"")), ["text", "[]"]);
        // Without a page, it stays where it is.
        assert_eq!(plan_of(settings(), &Parts::default().text("x").meta(name, "\"abc\"")), ["keep", "keep"]);
        let keep = in_words(&call(settings()), &large().meta(name, "\"abc\""), &[Wish::Any, Wish::Keep]);
        assert_eq!(keep, ["text", "keep"]);
    }
    assert_eq!(plan_of(settings(), &large().meta("cursor", "\"abc\"")), ["text", "keep"]);
    assert_eq!(plan_of(settings(), &large().text("abc").named("nextCursor")), ["text", "keep"]);
}

#[test]
fn a_wish_decides_before_the_settings() {
    let parts = large().text("a remark").binary("image/png", [0; 9]);
    let wished = |wishes: &[Wish]| in_words(&call(settings()), &parts, wishes);
    assert_eq!(wished(&[]), ["text", "keep", "keep"]);
    assert_eq!(wished(&[Wish::Keep, Wish::Write, Wish::Write]), ["keep", "text", "bytes"]);
    // What is wished for does not count among the small parts.
    let eight = Parts::default().texts(9, "a remark");
    let wishes = [Wish::Keep, Wish::Any];
    assert_eq!(in_words(&call(settings()), &eight, &wishes), ["keep"; 9]);
}

/// Bytes that are read to plan for a text.
fn bytes_read(settings: Settings, text: &str) -> usize {
    let parts = Parts::default().text(text);
    plan_of(settings, &parts);
    parts.bytes_read()
}

#[test]
fn no_more_is_read_than_the_plan_needs() {
    let slice = crate::support::SLICE_BYTES;
    // An array of records is settled by its first ones.
    assert_eq!(bytes_read(settings(), &rows(10_000)), slice);
    // Sections that the settings name need no search.
    let document = format!("{{\"ok\":true,\"items\":{}}}", rows(10_000));
    assert_eq!(bytes_read(with_items(), &document), slice);
    // Others are searched for in the first 4 MiB.
    assert_eq!(bytes_read(settings(), &document), document.len());
    let long = format!("{{\"ok\":true,\"items\":{}}}", rows(300_000));
    assert_eq!(bytes_read(settings(), &long), SURVEY_BYTES_MAX.next_multiple_of(slice));
    // A text that is not JSON is read again, until its form shows.
    assert_eq!(
        bytes_read(settings(), &"a line\n".repeat(20_000)),
        slice + (HEAD_BYTES_MAX + 1).next_multiple_of(slice)
    );
}
