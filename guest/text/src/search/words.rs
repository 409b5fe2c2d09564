//! The words of a question, and their forms in a text.

/// Words that nearly every passage has.
const STOP_WORDS: [&str; 52] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "for", "from",
    "had", "has", "have", "how", "i", "in", "is", "it", "its", "me", "of", "on", "or", "show", "that", "the", "their",
    "there", "these", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "you", "your",
];

/// Endings that a word may have in the text or in the question and be the same word.
const ENDINGS: [&str; 6] = ["ing", "ed", "es", "s", "e", ""];

/// Letters that a word keeps at least when an ending is cut off.
const STEM_MIN: usize = 4;

/// The words of a question without those that say nothing, each once, in lower case and without their endings.
pub(crate) fn terms(question: &[String]) -> Vec<Vec<u8>> {
    let words = question.iter().flat_map(|text| text.split(|letter: char| !is_letter(letter)));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let says_something = |word: &&String| !STOP_WORDS.contains(&word.as_str());
    let mut kept: Vec<&String> = words.iter().filter(says_something).collect();
    if kept.is_empty() {
        kept = words.iter().collect();
    }
    let mut terms: Vec<Vec<u8>> = Vec::new();
    for word in kept {
        let stem = stem(word).as_bytes();
        if !terms.iter().any(|term| term == stem) {
            terms.push(stem.to_vec());
        }
    }
    terms
}

/// Whether a term with these bytes behind it is a form of its word.
pub(crate) fn is_ending(rest: &[u8]) -> bool {
    ENDINGS.iter().any(|ending| ending.as_bytes().eq_ignore_ascii_case(rest))
}

/// Whether a byte is part of a word.
#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn is_letter(letter: char) -> bool {
    !letter.is_ascii() || letter.is_ascii_alphanumeric()
}

fn stem(word: &str) -> &str {
    let stems = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
    stems.into_iter().find(|stem| stem.len() >= STEM_MIN && !stem.ends_with('s')).unwrap_or(word)
}
