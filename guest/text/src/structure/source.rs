//! Definitions in source code, by the first words of their lines.

use memchr::memmem;

use super::{Mark, Parents, indent_of};

/// A language, or a family that defines alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    Go,
    /// Java, C#, Kotlin.
    Java,
    JavaScript,
    /// C and C++.
    C,
    /// Of a shell that descends from Bourne's.
    Shell,
}

impl Language {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 7] =
        [Self::Rust, Self::Python, Self::Go, Self::Java, Self::JavaScript, Self::C, Self::Shell];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript or TypeScript",
            Self::Go => "Go",
            Self::Java => "Java or C#",
            Self::C => "C or C++",
            Self::Shell => "shell",
        }
    }

    /// The language of a file, by the end of its name.
    pub(super) fn of_path(path: &[u8]) -> Option<Self> {
        match path.rsplit(|&byte| byte == b'.').next()? {
            b"rs" => Some(Self::Rust),
            b"py" | b"pyi" => Some(Self::Python),
            b"go" => Some(Self::Go),
            b"java" | b"cs" | b"kt" | b"kts" => Some(Self::Java),
            b"js" | b"jsx" | b"mjs" | b"cjs" | b"ts" | b"tsx" | b"mts" => Some(Self::JavaScript),
            b"c" | b"h" | b"cc" | b"cpp" | b"cxx" | b"hh" | b"hpp" => Some(Self::C),
            b"sh" | b"bash" | b"zsh" => Some(Self::Shell),
            _ => None,
        }
    }

    /// Words that may stand before the one that says what is defined.
    fn modifiers(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["pub", "async", "unsafe", "const", "default", "extern"],
            Self::Python => &["async"],
            Self::JavaScript => &["export", "default", "async", "declare", "abstract"],
            Self::Go | Self::Shell => &[],
            Self::Java => &[
                "public",
                "private",
                "protected",
                "internal",
                "static",
                "final",
                "abstract",
                "sealed",
                "partial",
                "synchronized",
                "override",
                "virtual",
                "async",
                "default",
                "data",
                "open",
            ],
            Self::C => &["static", "inline", "extern", "constexpr", "virtual", "explicit", "typedef"],
        }
    }

    /// Words that begin a definition, after the modifiers.
    fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["fn", "struct", "enum", "trait", "impl", "mod", "union", "macro_rules!"],
            Self::Python => &["def", "class"],
            Self::JavaScript => &["function", "class", "interface", "enum", "namespace", "function*"],
            Self::Go => &["func", "type"],
            Self::Java => {
                &["class", "interface", "enum", "record", "@interface", "namespace", "struct", "fun", "object"]
            }
            Self::C => &["struct", "class", "enum", "union", "namespace"],
            Self::Shell => &["function"],
        }
    }
}

/// Whether a text begins with the line that names a shell as its interpreter. Nothing else tells a short script from prose:
/// its comments look like headings of Markdown.
pub(super) fn is_script_of_shell(head: &[u8]) -> bool {
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = first.split(|byte| matches!(byte, b' ' | b'\t' | b'/' | b'\r'));
    first.starts_with(b"#!") && words.any(|word| matches!(word, b"sh" | b"bash" | b"dash" | b"ksh" | b"zsh" | b"ash"))
}

/// The language that a line, without white space around it, is certain to be of, or nearly so.
pub(super) fn sign(text: &[u8]) -> Option<Language> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| text.starts_with(beginning.as_bytes()));
    let has = |part: &str| memmem::find(text, part.as_bytes()).is_some();
    let last = text.last().copied().unwrap_or_default();
    let ends = last == b';';
    if begins(&["#include", "#define ", "#if", "#endif", "#pragma", "extern \"C\"", "template <", "std::"]) {
        return Some(Language::C);
    }
    if begins(&["#[", "#![", "if let ", "} else if let ", "while let ", "let mut "])
        || begins(&["let "]) && has("::")
        || begins(&["match "]) && last == b'{'
        || text.ends_with(b")?;")
        || has("&mut ")
        || begins(&["pub ", "fn ", "impl", "use "]) && (last != b')' || has("->")) && !has("=>")
    {
        return Some(Language::Rust);
    }
    if begins(&["def ", "elif ", "class ", "async def ", "except", "if ", "for ", "with "]) && last == b':'
        || begins(&["from "]) && has(" import ")
        || begins(&["import "]) && !ends && !has(" from ") && !has("(") && !has("\"")
        || begins(&["self.", "\"\"\"", "raise ", "return self"])
    {
        return Some(Language::Python);
    }
    if begins(&["func ", "import ("])
        || begins(&["package "]) && !ends
        || has(" := ")
        || begins(&["type "]) && has(" struct {")
    {
        return Some(Language::Go);
    }
    // TypeScript has the type behind the name and a colon.
    let is_typed = text.split(|&byte| byte == b' ').count() > 2 && (!has(": ") || has(" : "));
    if begins(&["package ", "import java", "import static", "using ", "@Override"])
        || begins(&["private ", "public ", "protected "]) && is_typed
    {
        return Some(Language::Java);
    }
    // `let` and most `=>` may be Rust as well, and so may a `const` with its type.
    if begins(&[
        "export ",
        "const {",
        "const [",
        "var ",
        "import ",
        "function ",
        "async function ",
        "declare ",
        "\"use strict\"",
    ]) || begins(&["const "]) && !has(": ")
        || has("(() => ")
        || has("= (") && has(") => ")
        || has("require(")
        || has(" === ")
    {
        return Some(Language::JavaScript);
    }
    let declares =
        begins(&["int ", "char ", "void ", "unsigned ", "static ", "size_t ", "struct ", "typedef ", "uint"]);
    if ends && (declares || has("->")) {
        return Some(Language::C);
    }
    None
}

/// Follows one line: a definition is a mark, and a line that is indented less ends those before.
#[inline]
pub(super) fn line(language: Language, line: &[u8], parents: &mut Parents) -> Option<Mark> {
    let (columns, text) = indent_of(line);
    // An empty line, what ends or begins a block, attributes, and lines of the preprocessor do not leave a block.
    if matches!(text.first(), None | Some(b'\r' | b'\n' | b'}' | b')' | b']' | b'{' | b'#' | b'@' | b'/' | b'*')) {
        return None;
    }
    let level = columns.saturating_add(1);
    let text = text.trim_ascii_end();
    if is_definition(language, columns, text) {
        parents.push(level, text);
        return Some(Mark { level, back: false });
    }
    if !text.starts_with(b"where") {
        parents.end(level);
    }
    None
}

/// The level that a definition in this line would have, or the line's block has.
pub(super) fn level(line: &[u8]) -> u32 {
    match indent_of(line) {
        (columns, [b'}' | b')' | b']' | b'{', ..]) => columns.saturating_add(2),
        (_, [] | [b'\r' | b'\n', ..]) => u32::MAX,
        (columns, _) => columns.saturating_add(1),
    }
}

/// Whether a line, without what indents it, begins a definition.
pub(super) fn is_definition(language: Language, columns: u32, text: &[u8]) -> bool {
    let mut words = text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let is = |list: &[&str], word: &[u8]| list.iter().any(|one| one.as_bytes() == word);
    let begins = words.find(|word| {
        let modifier = word.split(|&byte| byte == b'(').next().unwrap_or_default();
        // The ABI in `extern "C"`.
        !is(language.modifiers(), modifier) && !word.starts_with(b"\"")
    });
    let Some(first) = begins else { return false };
    let keyword = first.split(|byte| matches!(byte, b'<' | b'(')).next().unwrap_or_default();
    if is(language.keywords(), keyword) {
        let ends = text.last() == Some(&b';');
        return match language {
            Language::C => !ends && !text.contains(&b'(') && !text.contains(&b'='),
            Language::Python => text.contains(&b'(') || text.ends_with(b":"),
            Language::Rust => keyword == b"impl" || words.next().is_some(),
            _ => words.next().is_some() || keyword.len() < first.len(),
        };
    }
    match language {
        Language::C => columns == 0 && is_function(text),
        Language::Java => columns > 0 && text.ends_with(b"{") && is_function(text),
        Language::JavaScript => is_arrow(first, text) || columns > 0 && text.ends_with(b"{") && is_function(text),
        Language::Shell => matches!(text.strip_suffix(b"{").unwrap_or(text).trim_ascii_end(), [.., b'(', b')']),
        Language::Rust | Language::Python | Language::Go => false,
    }
}

/// `name(arguments)` that is neither a statement nor a call: nothing is assigned before the bracket, and no `;` ends it.
fn is_function(text: &[u8]) -> bool {
    const STATEMENTS: [&str; 14] = [
        "if", "for", "while", "switch", "return", "else", "do", "catch", "try", "new", "throw", "case", "sizeof",
        "await",
    ];
    let Some(bracket) = text.iter().position(|&byte| byte == b'(') else { return false };
    let before = text.get(..bracket).unwrap_or_default();
    let first = before.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').find(|word| !word.is_empty());
    let Some(first) = first else { return false };
    let names = |byte: &u8| byte.is_ascii_alphanumeric() || b"_ \t*&:<>,~$[].#".contains(byte);
    before.iter().all(names)
        && before.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
        && !STATEMENTS.iter().any(|word| word.as_bytes() == first)
        && !text.ends_with(b";")
        && !text.ends_with(b",")
        && !text.ends_with(b"=> {")
}

/// `const name = (arguments) => …`, or `= function`.
fn is_arrow(first: &[u8], text: &[u8]) -> bool {
    let has = |part: &str| memmem::find(text, part.as_bytes()).is_some();
    matches!(first, b"const" | b"let" | b"var") && (has("=>") || has("= function") || has("= async function"))
}
