//! How the codes of a font read, and how wide they are.

use std::collections::HashMap;

use lopdf::{Dictionary, Document, Encoding, Object};

/// Widths are in thousandths of the size of the font.
const EM: f64 = 1000.0;

/// The width of a code of a simple font that says none: that of most letters.
const WIDTH: f64 = 500.0;

/// Codes that a font of two bytes has.
const CODES_MAX: u32 = 1 << 16;

/// A font.
pub(super) struct Font {
    /// Bytes of each code.
    code_bytes: usize,
    texts: Texts,
    widths: HashMap<u32, f64>,
    /// The width of a code that is not in `widths`.
    width: f64,
}

/// The text of each code.
enum Texts {
    Table(HashMap<u32, String>),
    /// The codes are UTF-16.
    Utf16,
}

/// One code of a string.
pub(super) struct Glyph<'a> {
    pub(super) text: std::borrow::Cow<'a, str>,
    /// A share of the size of the font.
    pub(super) width: f64,
    /// Whether it is the space of one byte, which the word spacing widens.
    pub(super) is_space: bool,
}

impl Font {
    pub(super) fn new(document: &Document, font: &Dictionary) -> Self {
        if is_name(font, b"Subtype", b"Type0") { Self::composite(document, font) } else { Self::simple(document, font) }
    }

    fn simple(document: &Document, font: &Dictionary) -> Self {
        let mut texts = HashMap::new();
        if let Ok(encoding) = usual(document, font).get_font_encoding(document) {
            for code in 0..=u8::MAX {
                let text = encoding.bytes_to_string(&[code]).unwrap_or_default();
                texts.insert(u32::from(code), text);
            }
        }
        texts.extend(to_unicode(document, font, 1));
        let (widths, width) = simple_widths(document, font);
        Self { code_bytes: 1, texts: Texts::Table(texts), widths, width }
    }

    fn composite(document: &Document, font: &Dictionary) -> Self {
        let encoding = font.get_deref(b"Encoding", document).and_then(Object::as_name).unwrap_or_default();
        let is_utf16 = [&b"UCS2-H"[..], b"UCS2-V", b"UTF16-H", b"UTF16-V"].iter().any(|end| encoding.ends_with(end));
        let texts = to_unicode(document, font, 2);
        let texts = if texts.is_empty() && is_utf16 { Texts::Utf16 } else { Texts::Table(texts) };
        let descendants = font.get_deref(b"DescendantFonts", document).and_then(Object::as_array);
        let descendant = descendants.ok().and_then(|fonts| fonts.first());
        let descendant = descendant.and_then(|font| document.dereference(font).ok()?.1.as_dict().ok());
        let (widths, width) = descendant.map_or((HashMap::new(), EM), |font| composite_widths(document, font));
        Self { code_bytes: 2, texts, widths, width }
    }

    /// The codes of a string.
    pub(super) fn glyphs<'a>(&'a self, string: &'a [u8]) -> impl Iterator<Item = Glyph<'a>> {
        string.chunks(self.code_bytes).map(|bytes| {
            let code = bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
            let text = match &self.texts {
                Texts::Table(texts) => texts.get(&code).map_or("\u{fffd}", String::as_str).into(),
                Texts::Utf16 => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).to_string().into(),
            };
            let width = self.widths.get(&code).copied().unwrap_or(self.width) / EM;
            Glyph { text, width, is_space: self.code_bytes == 1 && code == u32::from(b' ') }
        })
    }
}

fn is_name(dictionary: &Dictionary, key: &[u8], name: &[u8]) -> bool {
    dictionary.get(key).and_then(Object::as_name).is_ok_and(|found| found == name)
}

/// The font with the types that lopdf wants to see, and documents leave out.
fn usual(document: &Document, font: &Dictionary) -> Dictionary {
    let mut usual = font.clone();
    usual.set("Type", "Font");
    if let Ok(encoding) = font.get_deref(b"Encoding", document).and_then(Object::as_dict) {
        let mut encoding = encoding.clone();
        encoding.set("Type", "Encoding");
        if let Ok(differences) = encoding.get_deref(b"Differences", document).cloned() {
            encoding.set("Differences", differences);
        }
        usual.set("Encoding", encoding);
    }
    usual
}

/// The texts that a font gives its codes itself.
fn to_unicode(document: &Document, font: &Dictionary, code_bytes: u8) -> HashMap<u32, String> {
    let Ok(map) = font.get(b"ToUnicode") else { return HashMap::new() };
    // With nothing else that could say it.
    let mut only = Dictionary::new();
    only.set("Type", "Font");
    only.set("ToUnicode", map.clone());
    let Ok(Encoding::UnicodeMapEncoding(map)) = only.get_font_encoding(document) else { return HashMap::new() };
    let Some(ranges) = map.bf_ranges.get(usize::from(code_bytes) - 1) else { return HashMap::new() };
    let mut texts = HashMap::new();
    for (range, _) in ranges.iter() {
        for code in *range.start()..=(*range.end()).min(CODES_MAX - 1) {
            if let Some(units) = map.get(code, code_bytes) {
                texts.insert(code, String::from_utf16_lossy(&units));
            }
        }
    }
    texts
}

/// The widths of the codes of a simple font, and that of the others.
fn simple_widths(document: &Document, font: &Dictionary) -> (HashMap<u32, f64>, f64) {
    let first = font.get_deref(b"FirstChar", document).and_then(Object::as_i64).unwrap_or_default();
    let first = u32::try_from(first).unwrap_or_default();
    let scale = match font.get_deref(b"FontMatrix", document).and_then(Object::as_array) {
        // Fonts whose letters are drawn have units of their own.
        Ok(matrix) => matrix.first().and_then(|a| a.as_float().ok()).map_or(1.0, |a| f64::from(a) * EM),
        Err(_) => 1.0,
    };
    let widths = font.get_deref(b"Widths", document).and_then(Object::as_array).map(Vec::as_slice).unwrap_or_default();
    let widths =
        (first..CODES_MAX).zip(widths).filter_map(|(code, width)| Some((code, number(document, width)? * scale)));
    let other = font.get_deref(b"FontDescriptor", document).and_then(Object::as_dict);
    let other = other.and_then(|descriptor| descriptor.get_deref(b"MissingWidth", document)?.as_float());
    (widths.collect(), other.map_or(WIDTH, f64::from))
}

/// The widths of a composite font: `W` is a list of `first [width …]` and `first last width`.
fn composite_widths(document: &Document, font: &Dictionary) -> (HashMap<u32, f64>, f64) {
    let other = font.get_deref(b"DW", document).and_then(Object::as_float).map_or(EM, f64::from);
    let list = font.get_deref(b"W", document).and_then(Object::as_array).map(Vec::as_slice).unwrap_or_default();
    let code = |object: &Object| number(document, object).map(|code| code.clamp(0.0, f64::from(CODES_MAX)) as u32);
    let mut widths = HashMap::new();
    let mut rest = list;
    while let [first, next, after @ ..] = rest {
        let Some(first) = code(first) else { break };
        let array = document.dereference(next).ok().and_then(|(_, next)| next.as_array().ok());
        rest = match (array, after) {
            (Some(array), after) => {
                let each = (first..CODES_MAX).zip(array);
                widths.extend(each.filter_map(|(code, width)| Some((code, number(document, width)?))));
                after
            }
            (None, [width, after @ ..]) => {
                let (Some(last), Some(width)) = (code(next), number(document, width)) else { break };
                widths.extend((first..=last).map(|code| (code, width)));
                after
            }
            (None, []) => break,
        };
    }
    (widths, other)
}

fn number(document: &Document, object: &Object) -> Option<f64> {
    document.dereference(object).ok()?.1.as_float().ok().map(f64::from)
}
