//! Follows the tables in JSON: rows without names, below the names of their columns.
//!
//! The names are in a member of the object that has the rows, `{"columns": ["id", "password"], "rows": [[7, "x"]]}`, or in
//! the first row, `[["id", "password"], [7, "x"]]`. Only what stands behind the names is found.

use lro_text::{COLUMN_KEYS, COLUMNS_MAX, NAME_BYTES_MAX};

use crate::rules::Rules;

/// Most containers that are followed, one in another. What is deeper has no tables.
const DEPTH_MAX: usize = 64;

/// The containers that are open, from one on that may have a table in it.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    levels: Vec<Level>,
    /// Containers beyond [`DEPTH_MAX`].
    deeper: usize,
}

/// An open container.
#[derive(Clone, Debug, Default)]
struct Level {
    is_object: bool,
    role: Role,
    key: Key,
    /// Index of the current element of an array.
    index: usize,
    /// Secret columns of the rows in this container, in order, when the names of all are known; of a list of names, those so
    /// far.
    secret: Option<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Other,
    /// The names of columns.
    Names,
    /// One column in a list of names.
    Name,
    /// The object around a list of names: `schema`.
    Schema,
    /// A first row, which may be names.
    Header,
    /// Values in the order of the columns.
    Row,
}

/// The key of the current member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Other,
    /// One of [`COLUMN_KEYS`].
    Names,
    /// `name`.
    Name,
}

impl Key {
    fn of(key: &str) -> Self {
        match key {
            "name" => Self::Name,
            _ if names_columns(key) => Self::Names,
            _ => Self::Other,
        }
    }
}

/// Whether the member with this key names columns.
pub(crate) fn names_columns(key: &str) -> bool {
    COLUMN_KEYS.contains(&key)
}

impl Grid {
    /// In a container.
    pub(crate) fn inside(is_object: bool) -> Self {
        Self { levels: vec![Level { is_object, ..Level::default() }], deeper: 0 }
    }

    /// Handles the colon after a key.
    pub(crate) fn key(&mut self, key: &str) {
        if let Some(level) = self.levels.last_mut().filter(|_| self.deeper == 0) {
            level.key = Key::of(key);
        }
    }

    pub(crate) fn open(&mut self, is_object: bool) {
        if self.levels.len() == DEPTH_MAX {
            self.deeper += 1;
            return;
        }
        let Some(parent) = self.levels.last_mut() else { return };
        let mut level = Level { is_object, ..Level::default() };
        match (parent.role, parent.is_object, is_object) {
            (Role::Schema, true, true) => {}
            (_, true, true) if parent.key == Key::Names => level.role = Role::Schema,
            (_, true, false) if parent.key == Key::Names => level.role = Role::Names,
            (_, true, false) => level.secret.clone_from(&parent.secret),
            (Role::Names, _, true) => level.role = Role::Name,
            (Role::Other, _, false) if parent.secret.is_some() => level.role = Role::Row,
            (Role::Other | Role::Header, _, false) if parent.index == 0 => level.role = Role::Header,
            _ => {}
        }
        if parent.role == Role::Header {
            // It holds more than names.
            parent.role = Role::Other;
            parent.secret = None;
        }
        self.levels.push(level);
    }

    /// Handles a closing bracket behind a string, or behind anything else.
    pub(crate) fn close(&mut self, last: Option<&str>, rules: &Rules) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        self.value(last, rules);
        let Some(closed) = self.levels.pop() else { return };
        if let Some(parent) = self.levels.last_mut()
            && let Some(names) =
                closed.secret.filter(|_| matches!(closed.role, Role::Names | Role::Schema | Role::Header))
        {
            merge(parent.secret.get_or_insert_default(), &names);
        }
    }

    /// Handles a comma behind a string, or behind anything else.
    pub(crate) fn comma(&mut self, last: Option<&str>, rules: &Rules) {
        if self.deeper == 0 {
            self.value(last, rules);
            if let Some(level) = self.levels.last_mut() {
                level.index += 1;
            }
        }
    }

    /// Ends a value that may be the name of a column.
    fn value(&mut self, last: Option<&str>, rules: &Rules) {
        let Some((level, outer)) = self.levels.split_last_mut() else { return };
        let is_secret = || last.is_some_and(|name| rules.is_secret(name));
        match level.role {
            Role::Header if last.is_none() => {
                level.role = Role::Other;
                level.secret = None;
            }
            Role::Names | Role::Header => {
                let secret = level.secret.get_or_insert_default();
                if is_secret() {
                    add(secret, level.index);
                }
            }
            Role::Name if level.key == Key::Name && is_secret() => {
                let names = outer.last_mut();
                names.into_iter().for_each(|names| add(names.secret.get_or_insert_default(), names.index));
            }
            _ => {}
        }
    }

    /// Whether the value that comes next is in a secret column.
    pub(crate) fn is_secret(&self) -> bool {
        match self.levels.as_slice() {
            [.., rows, row] if row.role == Role::Row && self.deeper == 0 => {
                rows.secret.as_ref().is_some_and(|secret| secret.binary_search(&row.index).is_ok())
            }
            _ => false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.levels.is_empty()
    }
}

/// Adds a piece of a string that may be the name of a column. One character more than a name may have shows that it is none.
pub(crate) fn push_name(name: &mut String, piece: &str) {
    let room = (NAME_BYTES_MAX + 1).saturating_sub(name.len());
    name.push_str(piece.get(..piece.ceil_char_boundary(room)).unwrap_or_default());
}

/// Adds columns, in order.
pub(crate) fn merge(columns: &mut Vec<usize>, more: &[usize]) {
    columns.extend(more);
    columns.sort_unstable();
    columns.dedup();
}

/// Adds a column behind the others. No table has more than [`COLUMNS_MAX`].
pub(crate) fn add(columns: &mut Vec<usize>, column: usize) {
    if columns.len() < COLUMNS_MAX && columns.last().is_none_or(|last| *last < column) {
        columns.push(column);
    }
}
