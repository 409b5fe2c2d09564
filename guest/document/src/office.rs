//! The text of Office Open XML: the body of a Word document, or a slide of a presentation.
//!
//! A paragraph with the style of a heading is one, and so are those of the title of a slide.

use std::io::BufRead;

use quick_xml::events::BytesStart;

use super::DocumentError;
use super::markdown::{LEVEL_MAX, Markdown};
use super::xml::{self, Xml, attribute};

/// Level of the heading that the title of a slide is, below that of the slide.
const TITLE_LEVEL: usize = 2;

/// What a shape of a slide is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Title,
    /// What is the same on each slide: its number, the date, header and footer.
    Frame,
}

/// Adds the text of a document or slide.
pub(crate) fn read(source: impl BufRead, markdown: &mut Markdown) -> Result<(), DocumentError> {
    // Whether the text is of a run, and in how many copies of a drawing for older programs.
    let (mut is_text, mut copies) = (false, 0_usize);
    let mut shape = Shape::Text;
    xml::each(source, |step| {
        match step {
            Xml::Start(element) => match element.local_name().as_ref() {
                "Fallback" => copies += 1,
                _ if copies > 0 => {}
                "t" => is_text = true,
                "tab" => markdown.add(" ")?,
                "br" | "cr" => markdown.add("\n")?,
                "pStyle" => markdown.set_level(level_of_style(element)),
                "tbl" => markdown.begin_table(),
                "ph" => shape = shape_of(element),
                "p" => {
                    // A text box stands within a paragraph and has paragraphs itself: they end the one around it.
                    markdown.end_paragraph()?;
                    if shape == Shape::Title {
                        markdown.set_level(TITLE_LEVEL);
                    }
                }
                _ => {}
            },
            Xml::End(name) => match name {
                "Fallback" => copies = copies.saturating_sub(1),
                _ if copies > 0 => {}
                "t" => is_text = false,
                "p" => markdown.end_paragraph()?,
                "tc" => markdown.end_cell(),
                "tr" => markdown.end_row()?,
                "tbl" => markdown.end_table()?,
                "sp" => shape = Shape::Text,
                _ => {}
            },
            Xml::Text(text) if is_text && copies == 0 && shape != Shape::Frame => markdown.add(text)?,
            Xml::Text(_) => {}
        }
        Ok(())
    })
}

/// The level of the heading that a style is for: `Heading1`, `heading 2`, `Title`; 0 for any other.
fn level_of_style(style: &BytesStart<'_>) -> usize {
    let name = attribute(style, "val").unwrap_or_default().to_ascii_lowercase();
    match name.strip_prefix("heading") {
        _ if name == "title" => 1,
        Some(number) => number.trim().parse().unwrap_or(0).min(LEVEL_MAX),
        None => 0,
    }
}

fn shape_of(placeholder: &BytesStart<'_>) -> Shape {
    match attribute(placeholder, "type").as_deref() {
        Some("title" | "ctrTitle") => Shape::Title,
        Some("sldNum" | "dt" | "hdr" | "ftr") => Shape::Frame,
        _ => Shape::Text,
    }
}
