//! SPDX license expressions: `MIT OR Apache-2.0`, `(A OR B) AND C`, and `A/B` of old manifests.

use std::iter::Peekable;
use std::vec::IntoIter;

type Words = Peekable<IntoIter<String>>;

/// Whether the expression can be met with these licenses. False if it is not an expression.
pub(crate) fn allows(expression: &str, licenses: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let spaced = spaced.replace(" WITH ", "\0");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace('\0', " WITH ")).collect();
    let mut words = words.into_iter().peekable();
    any(&mut words, licenses) && words.next().is_none()
}

fn any(words: &mut Words, licenses: &[&str]) -> bool {
    let mut found = all(words, licenses);
    while words.next_if_eq("OR").is_some() {
        found |= all(words, licenses);
    }
    found
}

fn all(words: &mut Words, licenses: &[&str]) -> bool {
    let mut found = one(words, licenses);
    while words.next_if_eq("AND").is_some() {
        found &= one(words, licenses);
    }
    found
}

fn one(words: &mut Words, licenses: &[&str]) -> bool {
    if words.next_if_eq("(").is_none() {
        return words.next().is_some_and(|word| licenses.contains(&word.as_str()));
    }
    let found = any(words, licenses);
    words.next_if_eq(")").is_some() && found
}

#[test]
fn expressions_are_evaluated() {
    let allows = |expression| allows(expression, &["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    for yes in [
        "MIT",
        "GPL-3.0/MIT",
        "MIT AND ISC",
        "(GPL-3.0 OR MIT) AND ISC",
        "Apache-2.0 WITH LLVM-exception",
        "GPL-3.0 OR ISC AND MIT",
    ] {
        assert!(allows(yes), "{yes}");
    }
    for no in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "Apache-2.0", "MIT ISC", "(MIT"] {
        assert!(!allows(no), "{no}");
    }
}
