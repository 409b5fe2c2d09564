//! A YAML list of maps, item by item.
//!
//! A strict part of YAML: block sequences and maps, plain, quoted, literal and folded scalars, empty `[]` and `{}`.
//! Anchors, aliases, tags, merge keys, other flow collections and further documents are faults, so nothing in a text can
//! grow. `null` and `~`, `true` and `false`, and numbers whose digits all survive are values; all other plain scalars
//! are strings as written: `yes`, `0x1F`, `1.50`, `2024-01-01`, which YAML 1.1 and 1.2 read differently.

mod item;
mod scalar;

use super::LINE_BYTES_MAX;
use super::error::Fault;
use super::records::Records;

/// Gathers items line by line.
#[derive(Debug, Default)]
pub(crate) struct Yaml {
    /// The lines of the current item; of the first one, `- ` is two spaces.
    item: String,
    in_list: bool,
}

impl Yaml {
    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        // YAML 1.1 takes these for line breaks, 1.2 does not.
        if line.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
            return Err(Fault::Yaml);
        }
        let begins = line == "-" || line.starts_with("- ");
        if begins {
            self.end_item(records)?;
            self.in_list = true;
        } else if !self.in_list {
            let is_before = line.trim().is_empty() || line.starts_with('#') || line == "---";
            return if is_before { Ok(()) } else { Err(Fault::Yaml) };
        } else if !(line.is_empty() || line.starts_with([' ', '#'])) {
            return Err(Fault::Yaml);
        }
        if self.item.len() + line.len() >= LINE_BYTES_MAX {
            return Err(Fault::Item);
        }
        match line.strip_prefix('-').filter(|_| begins) {
            Some(rest) => self.item.extend([" ", rest]),
            None => self.item.push_str(line),
        }
        self.item.push('\n');
        Ok(())
    }

    fn end_item(&mut self, records: &mut Records) -> Result<(), Fault> {
        if self.in_list {
            item::write(&self.item, &mut records.lines)?;
            self.item.clear();
            records.end();
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.end_item(records)
    }
}
