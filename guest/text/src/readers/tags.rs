//! What XML and HTML have in common.

/// Longest reference to a character, in bytes, with `&` and `;`: 12.
pub(super) const REFERENCE_BYTES_MAX: usize = 12;

/// Bytes of the text before the next tag, without a reference that the end of the piece cuts.
pub(super) fn text_length(piece: &str) -> usize {
    match piece.find('<') {
        Some(at) => at,
        None => match piece.rfind('&') {
            Some(at) if piece.len() - at < REFERENCE_BYTES_MAX && !piece[at..].contains(';') => at,
            _ => piece.len(),
        },
    }
}
