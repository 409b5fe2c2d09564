//! The lines that tables are drawn with.

/// What the rules and boundaries of a table are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// `-`, `=`, `+` and `|`.
    Ascii,
    /// The box drawing characters of Unicode: light, heavy, double and dashed ones.
    Drawn,
}

const HORIZONTAL: &[char] = &['─', '━', '═', '╌', '╍', '┄', '┅', '┈', '┉'];
const VERTICAL: &[char] = &['│', '┃', '║', '┆', '┇', '┊', '┋', '╎', '╏'];

impl Lines {
    /// What this rule is drawn with.
    pub(crate) fn of(rule: &str) -> Self {
        if rule.is_ascii() { Self::Ascii } else { Self::Drawn }
    }

    /// The characters between cells.
    pub(crate) fn boundary(self) -> &'static [char] {
        match self {
            Self::Ascii => &['|'],
            Self::Drawn => VERTICAL,
        }
    }
}

/// Whether a line is a rule with at least one boundary.
pub(crate) fn is_rule(line: &str) -> bool {
    if line.is_ascii() {
        return line.contains('+')
            && line.contains(['-', '='])
            && line.bytes().all(|byte| matches!(byte, b'-' | b'+' | b'='));
    }
    line.chars().all(|character| is_horizontal(character) || is_junction(character))
        && line.contains(is_horizontal)
        && line.contains(is_junction)
}

/// Where a rule has boundaries, in characters.
pub(crate) fn boundaries(rule: &str) -> Vec<usize> {
    let is_boundary = |character| character == '+' || is_junction(character);
    rule.chars().enumerate().filter(|(_, character)| is_boundary(*character)).map(|(at, _)| at).collect()
}

/// Whether a rule within a box joins the columns above it: DuckDB counts the rows below.
pub(crate) fn is_footer(rule: &str) -> bool {
    rule.starts_with('├') && rule.contains('┴')
}

/// Whether a rule is the last one of a box.
pub(crate) fn is_bottom(rule: &str) -> bool {
    rule.starts_with(['└', '╰', '┗', '╚', '╘', '╙'])
}

/// Whether the rule below a header is drawn as by Rich, which wraps cells and does not mark it.
pub(crate) fn is_wrapping(rule: &str) -> bool {
    rule.starts_with('┡')
}

fn is_horizontal(character: char) -> bool {
    HORIZONTAL.contains(&character)
}

/// Whether a character joins lines: a corner, a tee or a cross.
fn is_junction(character: char) -> bool {
    matches!(character, '\u{250c}'..='\u{254b}' | '\u{2552}'..='\u{2570}')
}
