//! Paths to a value inside another: JSON Pointers, or keys joined by dots.

use crate::pointer::{key_of_step, push_step};
use crate::walk::{self, Damaged};

/// One step of a path: a key, or the index of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The key, without escapes.
    pub key: Vec<u8>,
    /// The key as an index.
    index: Option<usize>,
}

impl Step {
    /// The step to the member with this key, or to the element with this index.
    #[must_use]
    pub fn new(key: String) -> Self {
        let is_index = key == "0" || (!key.starts_with('0') && key.bytes().all(|byte| byte.is_ascii_digit()));
        Self { index: key.parse().ok().filter(|_| is_index), key: key.into_bytes() }
    }
}

/// The steps of a path: those to its [`keys`].
#[must_use]
pub fn steps(field: &str) -> Vec<Step> {
    keys(field).into_iter().map(Step::new).collect()
}

/// The keys of a path: of a JSON Pointer if it begins with `/`, else between its dots; empty for the whole value.
#[must_use]
pub fn keys(field: &str) -> Vec<String> {
    match field.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(key_of_step).collect(),
        None if field.is_empty() => Vec::new(),
        None => field.split('.').map(str::to_owned).collect(),
    }
}

/// The path of some keys, joined by dots where that is unambiguous, else a JSON Pointer. In a test of a query, `[]` stands for
/// the elements of an array.
#[must_use]
pub fn spelled(keys: &[String]) -> String {
    if keys.iter().all(|key| is_plain(key)) {
        return keys.join(".");
    }
    let mut pointer = String::new();
    keys.iter().for_each(|key| push_step(&mut pointer, key));
    pointer
}

/// Whether a key can stand in a path with dots.
#[must_use]
pub fn is_plain(key: &str) -> bool {
    !key.is_empty() && !key.contains(['.', '/', '~']) && !key.contains("[]")
}

/// A path in its normal form: keys joined by dots where that is unambiguous.
#[must_use]
pub fn normal(field: &str) -> String {
    spelled(&keys(field))
}

/// Index of the value that `steps` lead to from the value at `at`. The last of several members with the same key is
/// used.
///
/// # Errors
///
/// [`Damaged`] for a text that is not JSON.
pub fn find(text: &[u8], mut at: usize, steps: &[Step]) -> Result<Option<usize>, Damaged> {
    for step in steps {
        let mut found = None;
        match text.get(at) {
            Some(b'{') => {
                walk::members(text, at, |key, value| {
                    if key.bytes == step.key && !key.has_escapes || key.has_escapes && *key.unescaped() == step.key {
                        found = Some(value);
                    }
                    Ok(())
                })?;
            }
            Some(b'[') if step.index.is_some() => {
                let mut index = 0;
                walk::elements(text, at, |value| {
                    if Some(index) == step.index {
                        found = Some(value);
                    }
                    index += 1;
                    Ok(())
                })?;
            }
            _ => {}
        }
        match found {
            Some(value) => at = value,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, field: &str) -> Option<String> {
        let at = find(text.as_bytes(), 0, &steps(field)).unwrap()?;
        Some(text[at..walk::value_end(text.as_bytes(), at).unwrap()].to_owned())
    }

    #[test]
    fn both_spellings_lead_to_the_same_value() {
        let text = r#"{"a":{"b":[10,{"c":true}],"0":"zero"},"x/y":1,"a.b":2,"":3,"~":4,"n\u0061me":5,"d":6,"d":7}"#;
        let cases = [
            ("/a/b/1/c", "true"),
            ("a.b.1.c", "true"),
            ("a.b.0", "10"),
            ("a.0", "\"zero\""),
            ("/x~1y", "1"),
            ("/a.b", "2"),
            ("/", "3"),
            ("/~0", "4"),
            ("name", "5"),
            ("d", "7"),
        ];
        for (field, value) in cases {
            assert_eq!(found(text, field).as_deref(), Some(value), "{field}");
        }
        for field in ["a.b.2", "a.b.01", "b", "/a/b/-1", "a.b.1.c.d", "a.b.c"] {
            assert_eq!(found(text, field), None, "{field}");
        }
        assert_eq!(found(text, "").as_deref(), Some(text));
    }

    #[test]
    fn a_spelled_path_leads_back() {
        for keys in [vec!["a"], vec!["a", "b"], vec!["a.b", "c"], vec!["x/y"], vec![""], vec!["~", "0"], vec!["a[]"]] {
            let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            let back: Vec<Step> = keys.iter().cloned().map(Step::new).collect();
            assert_eq!(steps(&spelled(&keys)), back);
        }
    }
}
