//! Random texts that nobody guesses.

/// Length of a random text: hexadecimal digits of 128 bits.
pub(crate) const HEX_DIGITS: usize = 32;

/// A new random text of [`HEX_DIGITS`].
///
/// # Errors
/// When the system has no random bytes.
pub(crate) fn random_hex() -> Result<String, getrandom::Error> {
    let mut random = [0; HEX_DIGITS / 2];
    getrandom::fill(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
