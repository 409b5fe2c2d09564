//! Texts and presentations in the format OpenDocument, as Markdown.
//!
//! A heading has its level, and a slide the heading `# Slide N`, with its title, its texts and its notes.

use std::io::{BufRead, Read};

use quick_xml::events::BytesStart;

use super::DocumentError;
use super::archive::Archive;
use super::markdown::Markdown;
use super::xml::{self, Xml, attribute};

/// The member with the text.
const CONTENT: &str = "content.xml";

/// The member that says which members are encrypted, and how.
const MANIFEST: &str = "META-INF/manifest.xml";
const ENCRYPTION: &[u8] = b"encryption-data";

/// Most bytes of the manifest that are looked at: 1 MiB. It has an entry for each member.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Most spaces that one element stands for. A writer makes one element of those in a row.
const SPACES_MAX: usize = 1_000;

/// Elements whose text is not that of the document: comments, footnotes, deleted text, what stands for an image, and what
/// is the same on each slide.
const LEFT_OUT: [&str; 8] =
    ["annotation", "note", "tracked-changes", "title", "desc", "forms", "scripts", "master-styles"];

pub(crate) fn text(archive: &mut Archive<'_>, limit: usize) -> Result<String, DocumentError> {
    let mut manifest = Vec::new();
    if archive.has(MANIFEST) {
        // What cannot be read says nothing.
        let _ = archive.member(MANIFEST)?.take(MANIFEST_BYTES_MAX).read_to_end(&mut manifest);
    }
    if manifest.windows(ENCRYPTION.len()).any(|window| window == ENCRYPTION) {
        return Err(DocumentError::Encrypted);
    }
    let mut markdown = Markdown::new(limit);
    read(archive.member(CONTENT)?, &mut markdown)?;
    markdown.finish()
}

fn read(source: impl BufRead, markdown: &mut Markdown) -> Result<(), DocumentError> {
    // In how many paragraphs, and in how many elements that are left out.
    let (mut paragraphs, mut left_out) = (0_usize, 0_usize);
    let (mut slides, mut is_title) = (0_usize, false);
    xml::each(source, |step| {
        match step {
            Xml::Start(element) => match element.local_name().as_ref() {
                name if left_out > 0 || LEFT_OUT.contains(&name) => left_out += 1,
                "frame" if is_repeated(element) => left_out += 1,
                "p" => {
                    // A drawing may stand within a paragraph and have paragraphs itself: they end the one around it.
                    markdown.end_paragraph()?;
                    paragraphs += 1;
                    if is_title {
                        markdown.set_level(2);
                    }
                }
                "h" => {
                    markdown.end_paragraph()?;
                    paragraphs += 1;
                    markdown.set_level(level(element));
                }
                "s" => markdown.add(&" ".repeat(count(element)))?,
                "tab" => markdown.add(" ")?,
                "line-break" => markdown.add("\n")?,
                "table" => markdown.begin_table(),
                "frame" => is_title = attribute(element, "class").is_some_and(|class| class == "title"),
                "page" => {
                    slides += 1;
                    markdown.heading(1, &format!("Slide {slides}"))?;
                }
                "notes" => markdown.announce(2, "Notes"),
                _ => {}
            },
            Xml::End(_) if left_out > 0 => left_out -= 1,
            Xml::End(name) => match name {
                "p" | "h" => {
                    markdown.end_paragraph()?;
                    paragraphs = paragraphs.saturating_sub(1);
                }
                "table-cell" | "covered-table-cell" => markdown.end_cell(),
                "table-row" => markdown.end_row()?,
                "table" => markdown.end_table()?,
                "frame" => is_title = false,
                _ => {}
            },
            Xml::Text(text) if paragraphs > 0 && left_out == 0 => markdown.add(&text.replace(['\n', '\t'], " "))?,
            Xml::Text(_) => {}
        }
        Ok(())
    })
}

/// Whether a frame of a slide has what each slide has.
fn is_repeated(frame: &BytesStart<'_>) -> bool {
    matches!(attribute(frame, "class").as_deref(), Some("header" | "footer" | "date-time" | "page-number"))
}

fn level(heading: &BytesStart<'_>) -> usize {
    attribute(heading, "outline-level").and_then(|level| level.parse().ok()).unwrap_or(1)
}

fn count(spaces: &BytesStart<'_>) -> usize {
    attribute(spaces, "c").and_then(|count| count.parse().ok()).unwrap_or(1).min(SPACES_MAX)
}
