//! JSON documents that are tables: names in one place, values in another. Values are copied byte for byte except for white
//! space between tokens.

mod parallel;
mod rows;

pub use parallel::PARALLEL_BYTES_MAX;
pub(crate) use parallel::Parallel;
pub(crate) use rows::Rows;

use super::string::quote;

/// What is written before the values of each name: `{"name":` and `,"name":`.
fn prefixes<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let prefix = |(index, name): (usize, &str)| {
        let mut prefix = vec![if index == 0 { b'{' } else { b',' }];
        quote(name.as_bytes(), &mut prefix);
        prefix.push(b':');
        prefix
    };
    names.enumerate().map(prefix).collect()
}
