//! One record in memory.

use std::collections::HashMap;

use crate::readers::error::Fault;
use crate::readers::string::quote;

/// An element with all that is in it.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Self>,
    /// All text directly in it.
    pub(super) text: String,
}

impl Element {
    /// Writes the element as JSON.
    pub(super) fn write(&self, json: &mut Vec<u8>) -> Result<(), Fault> {
        if self.attributes.is_empty() && self.children.is_empty() {
            quote(self.text.as_bytes(), json);
            return Ok(());
        }
        let has_text = !self.text.trim().is_empty();
        if has_text && !self.children.is_empty() {
            return Err(Fault::Mixed);
        }
        let mut separator = b'{';
        let mut key = |name: &str, json: &mut Vec<u8>| {
            json.push(separator);
            separator = b',';
            quote(name.as_bytes(), json);
            json.push(b':');
        };
        for (name, value) in &self.attributes {
            key(&format!("@{name}"), json);
            quote(value.as_bytes(), json);
        }
        for (name, elements) in self.groups() {
            key(name, json);
            match elements.as_slice() {
                [element] => element.write(json)?,
                elements => {
                    for (index, element) in elements.iter().enumerate() {
                        json.push(if index == 0 { b'[' } else { b',' });
                        element.write(json)?;
                    }
                    json.push(b']');
                }
            }
        }
        if has_text {
            key("#text", json);
            quote(self.text.as_bytes(), json);
        }
        json.push(b'}');
        Ok(())
    }

    /// The children by name, in the order of the first of each.
    fn groups(&self) -> Vec<(&str, Vec<&Self>)> {
        let mut groups: Vec<(&str, Vec<&Self>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for child in &self.children {
            let place = *places.entry(&child.name).or_insert(groups.len());
            if place == groups.len() {
                groups.push((&child.name, Vec::new()));
            }
            groups[place].1.push(child);
        }
        groups
    }
}
