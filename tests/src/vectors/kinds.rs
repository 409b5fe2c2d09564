//! Results of the kinds that servers give: records in texts, texts with an outline, and many blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lro_host::sandbox::PartKind;

use super::cases::{structured, text};
use super::{Content, Input, Vector};
use crate::{always, always_full};

/// Rows of a small table.
const ROWS: usize = 12;

/// Vectors of the default policy.
pub(super) fn kinds() -> Vec<Vector> {
    let of_text = |name, description, content: String| Vector::new(name, description, always(), vec![text(content)]);
    vec![
        of_text("json-lines", "JSON Lines: the records are byte copies", rows("", |id| format!("{}\n", object(id)))),
        of_text(
            "json-sequence",
            "JSON values one after another, over lines",
            rows("", |id| format!("{{\n  \"id\": {id},\n  \"city\": \"{}\"\n}}\n", city(id))),
        ),
        of_text("json-behind-a-sentence", "An array behind a sentence", {
            format!("Found {ROWS} cities:\n\n[{}]\n", (0..ROWS).map(object).collect::<Vec<_>>().join(","))
        }),
        of_text("json-in-a-fence", "An array in a fenced block under a heading", {
            format!("### Result\n```json\n[{}]\n```\n", (0..ROWS).map(object).collect::<Vec<_>>().join(",\n"))
        }),
        of_text(
            "csv",
            "Quoted fields, line breaks in them, leading zeros, a short row",
            rows("id,code,city,note\r\n", |id| {
                format!("{id},{:03},\"{}, \"\"old\"\"\",\"two\nlines\"\r\n", id * 7, city(id))
            }) + "99,1\r\n",
        ),
        of_text(
            "tsv",
            "Separated by tabs",
            rows("id\tcity\tarea\n", |id| format!("{id}\t{}\t{}.50\n", city(id), id * 3)),
        ),
        of_text(
            "markdown-table",
            "A table of Markdown",
            rows("| id | city |\n|---:|------|\n", |id| format!("| {id} | {} |\n", city(id))),
        ),
        of_text(
            "aligned-columns",
            "Columns in line, as commands print them",
            rows("ID   CITY        AREA\n", |id| format!("{id:<4} {:<11} {}\n", city(id), id * 100)),
        ),
        of_text("table-with-rules", "As psql prints a table", {
            rows(" id |    city    | area \n----+------------+------\n", |id| {
                format!(" {id:>2} | {:<10} | {:>4} \n", city(id), id * 100)
            }) + "(12 rows)\n"
        }),
        of_text("python-literals", "What str() makes of a list of dictionaries", {
            let record = |id| {
                format!("{{'id': {id}, 'city': \"{}'s\", 'up': {}, 'none': None}}", city(id), ["True", "False"][id % 2])
            };
            format!("[{}]", (0..ROWS).map(record).collect::<Vec<_>>().join(", "))
        }),
        of_text(
            "yaml-list",
            "A list of YAML",
            rows("", |id| format!("- id: {id}\n  city: {}\n  tags: [a, \"b c\"]\n", city(id))),
        ),
        of_text("xml-elements", "Elements of XML with attributes", {
            rows("<cities>\n", |id| format!("  <city id=\"{id}\"><name>{} &amp; more</name></city>\n", city(id)))
                + "</cities>\n"
        }),
        of_text("html-table", "A table of HTML", {
            rows("<table>\n<tr><th>id</th><th>city</th></tr>\n", |id| {
                format!("<tr><td>{id}</td><td>{}</td></tr>\n", city(id))
            }) + "</table>\n"
        }),
        of_text(
            "log",
            "A log: levels and messages with what varies masked",
            rows("", |id| {
                let level = ["INFO", "INFO", "ERROR"][id % 3];
                format!("2026-11-20 09:00:{id:02},000 {level} shop: order {} took {} ms\n", id * 31, id * 7)
            }),
        ),
        of_text(
            "markdown",
            "Headings of Markdown",
            rows("# Cities\n\nAll of them.\n", |id| {
                format!("\n## {}\n\nAbout number {id}.\n\n### Streets\n\nMany.\n", city(id))
            }),
        ),
        of_text(
            "difference",
            "Files and hunks of a diff",
            rows("", |id| {
                format!(
                    "diff --git a/{id}.txt b/{id}.txt\n--- a/{id}.txt\n+++ b/{id}.txt\n@@ -1,2 +1,2 @@\n one\n-{id}\n+{}\n",
                    id + 1
                )
            }),
        ),
        of_text("columns-and-rows", "JSON with columns and rows apart", {
            let row = |id| format!("[{id},\"{}\"]", city(id));
            format!("{{\"columns\":[\"id\",\"city\"],\"rows\":[{}]}}", (0..ROWS).map(row).collect::<Vec<_>>().join(","))
        }),
        of_text("records-in-a-string", "An array as text in a member", in_a_string("result", &objects())),
        of_text("document-in-a-string", "A document as text in a member, and small members beside both", {
            format!(
                "{{\"status\":200,{}",
                &in_a_string("body", &format!("{{\"cities\":{},\"of\":48}}", objects()))[1..]
            )
        }),
        of_text("json-in-strings-in-strings", "A document as text in a member of one that is text itself, twice", {
            let result = format!("{{\"cities\":{}}}", objects());
            let response = format!("{{\"status\":200,{}", &in_a_string("body", &result)[1..]);
            format!("{{\"ok\":true,{}", &in_a_string("response", &response)[1..])
        }),
        of_text("page", "One page of a list: how many records there are, and what continues", {
            format!("{{\"items\":{},\"total\":3000,\"nextCursor\":\"c2VjcmV0\"}}", objects())
        }),
        of_text("table-in-a-string", "A table as text in the only element of an array", {
            let table = (0..4 * ROWS).fold("id,city,code\n".to_owned(), |table, id| {
                table + &format!("{id},\"{} \"\"new\"\"\",{:03}\n", city(id), id * 7)
            });
            format!("[{{\"type\":\"text\",{}]", &in_a_string("text", &table)[1..])
        }),
        of_text("log-in-a-string", "The output of a command, with an outline", {
            let log = (0..4 * ROWS).fold(String::new(), |log, id| {
                let level = ["INFO", "INFO", "ERROR"][id % 3];
                log + &format!("2026-11-20 09:00:{id:02},000 {level} shop: \"{}\"\ttook {id} ms\n", city(id))
            });
            format!("{{\"exit_code\":0,\"stderr\":\"\",{}", &in_a_string("stdout", &log)[1..])
        }),
        of_text("bytes-in-a-string", "Base64, as it is and in a URL", {
            let base64 = |beginning: &[u8]| {
                let rest = (0..6_400_u32).map(|index| ((index * index) >> 4) as u8);
                STANDARD.encode(beginning.iter().copied().chain(rest).collect::<Vec<_>>())
            };
            let (pdf, png) = (base64(b"%PDF-1.7\n"), base64(b"\x89PNG\r\n\x1a\n"));
            format!("{{\"id\":7,\"file\":\"{pdf}\",\"shot\":\"data:image/png;base64,{png}\"}}")
        }),
        of_text(
            "named-values",
            "Blocks of named values",
            rows("", |id| format!("commit {:040x}\nAuthor: {}\nDate: 2026-11-{:02}\n\n", id * 7919, city(id), id + 1)),
        ),
        Vector::new(
            "many-texts",
            "Texts of many blocks are one text, with an outline of the blocks",
            always_full(),
            (0..ROWS).map(|id| text(format!("About {}\nand number {id}", city(id)))).collect(),
        ),
        Vector::new(
            "many-json-blocks",
            "JSON objects of many blocks are the records of one section",
            always_full(),
            (0..ROWS).map(|id| text(object(id))).collect(),
        ),
        Vector::new("several-files-of-bytes", "Bytes beside records", always_full(), {
            let bytes = |seed: u8| Content::Bytes((0..=255).map(|byte: u8| byte.wrapping_mul(seed)).collect());
            let binary = |seed, media_type: &str| Input {
                media_type: Some(media_type.to_owned()),
                ..Input::new(PartKind::Binary, bytes(seed))
            };
            let records = format!("[{}]", (0..ROWS).map(object).collect::<Vec<_>>().join(","));
            vec![binary(3, "application/zip"), structured(records), binary(5, "application/pdf")]
        }),
    ]
}

/// A table: what comes first, and the rows.
fn rows(head: &str, row: impl Fn(usize) -> String) -> String {
    std::iter::once(head.to_owned()).chain((0..ROWS).map(row)).collect()
}

fn objects() -> String {
    format!("[{}]", (0..4 * ROWS).map(object).collect::<Vec<_>>().join(", "))
}

/// An object with a text as its only member.
fn in_a_string(key: &str, text: &str) -> String {
    serde_json::json!({ key: text }).to_string()
}

fn object(id: usize) -> String {
    format!("{{\"id\":{id},\"city\":\"{}\",\"area\":{}.5}}", city(id), id * 3)
}

fn city(id: usize) -> &'static str {
    ["Aarhus", "Bergen", "Cádiz", "Dakar", "Erfurt", "Fès", "Gdańsk", "Haifa"][id % 8]
}
