//! A disk that holds what was synchronized, and of everything later whatever chance leaves when the power fails.
//!
//! What it assumes, harsher than the file systems in use:
//!
//! * `fsync` or `fdatasync` of a file keeps what was written to it before the call began, and nothing else: not its name.
//! * `fsync` of a directory keeps the names that changed in it before the call began, and nothing else: not the content of
//!   the files, and not the name of the directory itself.
//! * What was not kept is there or not, each write and each change of a name by itself, whatever the order was. A rename
//!   within one directory is one change: both names or neither.
//! * A write that was not kept leaves all, nothing, or for each sector of [`SECTOR`] bytes it touches: what was written, what
//!   was there, zeros or garbage. The file may end before it.
//! * Bytes that were synchronized and not written to since stay. Modes, owners and times are not looked at.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::{fmt, fs};

use crate::trace::Call;

/// Bytes a disk writes whole or not at all.
const SECTOR: usize = 4096;

/// Calls of the traced classes that change neither content nor names. Any other than these and the modelled ones fails the
/// test: the model must know it first.
const HARMLESS: [&str; 32] = [
    "access",
    "chdir",
    "chmod",
    "close",
    "dup",
    "dup2",
    "dup3",
    "execve",
    "faccessat2",
    "fadvise64",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fcntl",
    "flock",
    "fstat",
    "fstatfs",
    "getcwd",
    "getdents64",
    "ioctl",
    "memfd_create",
    "newfstatat",
    "poll",
    "ppoll",
    "pread64",
    "readlink",
    "readlinkat",
    "recvfrom",
    "stat",
    "statfs",
    "statx",
    "sync_file_range",
];

/// A sequence of numbers that looks random, and is the same for the same seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Less than the limit. xorshift: any sequence will do.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Names and what they stand for, as indexes of [`Disk::nodes`].
type Names = BTreeMap<String, usize>;

/// A file or a directory: what the disk has, and what was done to it since, each with the number of the operation.
#[derive(Clone)]
enum Node {
    File { kept: Vec<u8>, since: Vec<(usize, Change)> },
    Directory { kept: Names, since: Vec<(usize, Vec<Entry>)> },
}

/// A name and what it stands for from now on.
type Entry = (String, Option<usize>);

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// What a call does to the disk.
#[derive(Clone)]
pub(crate) enum Operation {
    /// Changes a file.
    Change { file: usize, name: String, offset: usize, bytes: Vec<u8> },
    /// Sets the length of a file.
    Truncate { file: usize, length: usize },
    /// Changes names in a directory.
    Enter { directory: usize, entries: Vec<Entry> },
    /// Keeps what was done to a file or directory before the operation of this number.
    Sync { node: usize, name: String, began: usize },
    /// The command answers on its standard output.
    Reply,
}

impl Operation {
    /// What is done when it ends in the middle; nothing for an operation that is done whole or not at all.
    pub(crate) fn half(&self, seed: u64) -> Option<Self> {
        let Self::Change { file, name, offset, bytes } = self else { return None };
        let length = Chance::new(seed).below(bytes.len() as u64) as usize;
        Some(Self::Change { file: *file, name: name.clone(), offset: *offset, bytes: bytes[..length].to_vec() })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change { name, offset, bytes, .. } => {
                write!(formatter, "write of {} bytes at {offset} to {name}", bytes.len())
            }
            Self::Truncate { length, .. } => write!(formatter, "truncation to {length} bytes"),
            Self::Enter { entries, .. } => {
                let entries =
                    entries.iter().map(|(name, node)| if node.is_some() { "+" } else { "-" }.to_owned() + name);
                write!(formatter, "names {}", entries.collect::<Vec<_>>().join(" "))
            }
            Self::Sync { name, .. } => write!(formatter, "sync of {name:?}"),
            Self::Reply => formatter.write_str("reply"),
        }
    }
}

/// A directory tree on a disk.
#[derive(Clone)]
pub(crate) struct Disk {
    nodes: Vec<Node>,
    done: usize,
}

impl Disk {
    /// The tree of a directory, all of it kept.
    pub(crate) fn read(root: &Path) -> Self {
        let mut disk = Self { nodes: Vec::new(), done: 0 };
        disk.read_node(root);
        disk
    }

    fn read_node(&mut self, path: &Path) -> usize {
        let node = self.nodes.len();
        if path.is_file() {
            self.nodes.push(Node::File { kept: fs::read(path).unwrap(), since: Vec::new() });
            return node;
        }
        self.nodes.push(Node::Directory { kept: Names::new(), since: Vec::new() });
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let child = self.read_node(&entry.path());
            let Node::Directory { kept, .. } = &mut self.nodes[node] else { unreachable!() };
            kept.insert(entry.file_name().into_string().unwrap(), child);
        }
        node
    }

    /// Does an operation.
    pub(crate) fn perform(&mut self, operation: &Operation) {
        let number = self.done;
        self.done += 1;
        match operation {
            Operation::Change { file, offset, bytes, .. } => {
                self.change(*file, Change::Write { offset: *offset, bytes: bytes.clone() }, number);
            }
            Operation::Truncate { file, length } => self.change(*file, Change::Length(*length), number),
            Operation::Enter { directory, entries } => {
                let Node::Directory { since, .. } = &mut self.nodes[*directory] else { panic!("not a directory") };
                since.push((number, entries.clone()));
            }
            Operation::Sync { node, began, .. } => match &mut self.nodes[*node] {
                Node::File { kept, since } => {
                    since.retain(|(number, change)| {
                        *number >= *began || {
                            change.apply(kept);
                            false
                        }
                    });
                }
                Node::Directory { kept, since } => {
                    since.retain(|(number, entries)| {
                        *number >= *began || {
                            enter(kept, entries);
                            false
                        }
                    });
                }
            },
            Operation::Reply => {}
        }
    }

    fn change(&mut self, file: usize, change: Change, number: usize) {
        let Node::File { since, .. } = &mut self.nodes[file] else { panic!("not a file") };
        since.push((number, change));
    }

    /// Writes the tree that the disk has after all operations to an empty directory.
    pub(crate) fn write_whole(&self, root: &Path) {
        self.write(0, root, &mut |entries| entries.iter().collect(), &mut |kept, since| {
            since.iter().for_each(|(_, change)| change.apply(kept));
        });
    }

    /// Writes a tree that the disk may have when the power fails now to an empty directory. The first four seeds keep all
    /// names or none, with all content or none.
    pub(crate) fn write_remains(&self, root: &Path, seed: u64) {
        let (mut names, mut content) = (Chance::new(seed + 1), Chance::new(seed + 1_000_003));
        // Of eight changes, how many are kept.
        let (named, written) = match seed {
            0..4 => (seed / 2 * 8, seed % 2 * 8),
            _ => (1 + names.below(7), 1 + content.below(7)),
        };
        self.write(
            0,
            root,
            &mut |entries| entries.iter().filter(|_| names.below(8) < named).collect(),
            &mut |kept, since| lose(kept, since, written, &mut content),
        );
    }

    fn write(
        &self,
        node: usize,
        path: &Path,
        choose: &mut impl FnMut(&[(usize, Vec<Entry>)]) -> Vec<&(usize, Vec<Entry>)>,
        fill: &mut impl FnMut(&mut Vec<u8>, &[(usize, Change)]),
    ) {
        match &self.nodes[node] {
            Node::File { kept, since } => {
                let mut content = kept.clone();
                fill(&mut content, since);
                let mut options = fs::OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(path);
                std::io::Write::write_all(&mut file.unwrap(), &content).unwrap();
            }
            Node::Directory { kept, since } => {
                let mut names = kept.clone();
                choose(since).into_iter().for_each(|(_, entries)| enter(&mut names, entries));
                if !path.exists() {
                    fs::DirBuilder::new().mode(0o700).create(path).unwrap();
                }
                for (name, child) in names {
                    self.write(child, &path.join(name), choose, fill);
                }
            }
        }
    }
}

fn enter(names: &mut Names, entries: &[Entry]) {
    for (name, node) in entries {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::Length(length) => content.resize(*length, 0),
        }
    }
}

/// What remains of changes that were not kept; of eight, so many are left whole.
fn lose(content: &mut Vec<u8>, since: &[(usize, Change)], share: u64, chance: &mut Chance) {
    let mut length = content.len();
    for (_, change) in since {
        let Change::Write { offset, bytes } = change else {
            if chance.below(8) < share {
                change.apply(content);
                length = content.len();
            }
            continue;
        };
        let end = offset + bytes.len();
        if chance.below(8) < share {
            change.apply(content);
            length = length.max(end);
        } else if share > 0 && chance.below(2) == 0 {
            content.resize(content.len().max(end), 0);
            garble(content, *offset, bytes, chance);
            length = length.max(end);
        } else if share > 0 && chance.below(2) == 0 {
            // The length is kept, and a hole.
            length = length.max(end);
        }
    }
    content.resize(length, 0);
}

fn garble(content: &mut [u8], offset: usize, bytes: &[u8], chance: &mut Chance) {
    let end = offset + bytes.len();
    let mut start = offset;
    while start < end {
        let next = end.min((start / SECTOR + 1) * SECTOR);
        let sector = &mut content[start..next];
        match chance.below(4) {
            0 => sector.copy_from_slice(&bytes[start - offset..next - offset]),
            1 => sector.fill(0),
            2 => sector.iter_mut().for_each(|byte| *byte = chance.below(256) as u8),
            _ => {}
        }
        start = next;
    }
}

/// Follows the calls: which names stand for what, and where descriptors point.
struct Recorder {
    root: PathBuf,
    names: HashMap<usize, Names>,
    nodes: Vec<Node>,
    positions: HashMap<i64, usize>,
    operations: Vec<Operation>,
    /// For each number of calls that ended, how many operations there were.
    counts: Vec<usize>,
}

/// What the calls do to the tree of a directory, and the disk before them. Panics at a call that the model does not know.
pub(crate) fn record(root: &Path, mut before: Disk, calls: &[Call]) -> (Disk, Vec<Operation>) {
    let names = before.nodes.iter().enumerate().filter_map(|(node, content)| match content {
        Node::Directory { kept, .. } => Some((node, kept.clone())),
        Node::File { .. } => None,
    });
    let mut recorder = Recorder {
        root: root.to_owned(),
        names: names.collect(),
        nodes: before.nodes.clone(),
        positions: HashMap::new(),
        operations: Vec::new(),
        counts: Vec::new(),
    };
    for call in calls {
        recorder.counts.push(recorder.operations.len());
        if call.result.is_some() {
            recorder.follow(call);
        }
    }
    // What is made later is there from the beginning, without a name.
    before.nodes = recorder.nodes;
    (before, recorder.operations)
}

impl Recorder {
    fn follow(&mut self, call: &Call) {
        let result = call.result.unwrap();
        match call.name.as_str() {
            "open" => self.open(&call.path(0), &call.arguments[1], result),
            "openat" | "openat2" => self.open(&call.path_at(0), &call.arguments[2], result),
            "mkdir" => self.make(&call.path(0), true),
            "mkdirat" => self.make(&call.path_at(0), true),
            "write" => self.write(call, None),
            "pwrite64" => self.write(call, Some(call.arguments[3].parse().unwrap())),
            "read" => self.advance(call, result),
            "lseek" => drop(call.descriptor(0).map(|(number, _)| self.positions.insert(number, result as usize))),
            "ftruncate" => {
                if let Some(file) = call.descriptor(0).and_then(|(_, path)| self.find(&path)) {
                    let length = call.arguments[1].parse().unwrap();
                    self.operations.push(Operation::Truncate { file, length });
                }
            }
            "fsync" | "fdatasync" => {
                if let Some((_, path)) = call.descriptor(0)
                    && let Some(node) = self.find(&path)
                {
                    let (name, began) = (self.inner(&path).unwrap(), self.counts[call.began]);
                    self.operations.push(Operation::Sync { node, name, began });
                }
            }
            "rename" => self.rename(&call.path(0), &call.path(1)),
            "renameat" => self.rename(&call.path_at(0), &call.path_at(2)),
            "renameat2" if !call.arguments[4].contains("EXCHANGE") => self.rename(&call.path_at(0), &call.path_at(2)),
            "unlink" | "rmdir" => self.remove(&call.path(0)),
            "unlinkat" => self.remove(&call.path_at(0)),
            "mmap" => {
                let is_ours = call.descriptor(4).is_some_and(|(_, path)| self.inner(&path).is_some());
                let can_write = call.arguments[2].contains("PROT_WRITE") && call.arguments[3].contains("MAP_SHARED");
                assert!(!is_ours || !can_write, "a file is written through memory: {call:?}");
            }
            name => assert!(HARMLESS.contains(&name), "the model does not know {call:?}"),
        }
    }

    /// A path in the tree, from its root on.
    fn inner(&self, path: &Path) -> Option<String> {
        Some(path.strip_prefix(&self.root).ok()?.to_str().unwrap().to_owned())
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let inner = path.strip_prefix(&self.root).ok()?;
        inner.components().try_fold(0, |node, component| match component {
            Component::Normal(name) => self.names.get(&node)?.get(name.to_str()?).copied(),
            Component::CurDir => Some(node),
            _ => panic!("the model does not know {}", path.display()),
        })
    }

    /// Directory and last step of a path in the tree.
    fn split(&self, path: &Path) -> Option<(usize, String)> {
        self.inner(path)?;
        let name = path.file_name()?.to_str()?.to_owned();
        Some((self.find(path.parent()?)?, name))
    }

    fn enter(&mut self, directory: usize, entries: Vec<Entry>) {
        enter(self.names.get_mut(&directory).unwrap(), &entries);
        self.operations.push(Operation::Enter { directory, entries });
    }

    fn open(&mut self, path: &Path, flags: &str, descriptor: i64) {
        if self.inner(path).is_none() {
            return;
        }
        assert!(!flags.contains("O_TMPFILE") && !flags.contains("O_APPEND"), "the model does not know {flags}");
        self.positions.insert(descriptor, 0);
        match self.find(path) {
            None => self.make(path, false),
            Some(file) if flags.contains("O_TRUNC") => self.operations.push(Operation::Truncate { file, length: 0 }),
            Some(_) => {}
        }
    }

    fn make(&mut self, path: &Path, is_directory: bool) {
        let Some((directory, name)) = self.split(path) else { return };
        let node = self.nodes.len();
        self.nodes.push(match is_directory {
            true => Node::Directory { kept: Names::new(), since: Vec::new() },
            false => Node::File { kept: Vec::new(), since: Vec::new() },
        });
        if is_directory {
            self.names.insert(node, Names::new());
        }
        self.enter(directory, vec![(name, Some(node))]);
    }

    fn write(&mut self, call: &Call, at: Option<usize>) {
        if call.arguments[0].starts_with("1<") {
            self.operations.push(Operation::Reply);
        }
        let Some((descriptor, path)) = call.descriptor(0) else { return };
        let Some(file) = self.find(&path) else { return };
        let length = call.result.unwrap() as usize;
        let offset = at.unwrap_or_else(|| self.positions.get(&descriptor).copied().unwrap());
        let bytes = call.bytes(1)[..length].to_vec();
        let name = self.inner(&path).unwrap();
        self.operations.push(Operation::Change { file, name, offset, bytes });
        if at.is_none() {
            self.advance(call, length as i64);
        }
    }

    fn advance(&mut self, call: &Call, length: i64) {
        if let Some((descriptor, _)) = call.descriptor(0)
            && let Some(position) = self.positions.get_mut(&descriptor)
        {
            *position += length as usize;
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let Some((directory, old)) = self.split(from) else { return };
        let Some((same, new)) = self.split(to) else { panic!("a rename out of the tree") };
        assert_eq!(directory, same, "the model does not know a rename between directories");
        let node = self.find(from);
        self.enter(directory, vec![(old, None), (new, node)]);
    }

    fn remove(&mut self, path: &Path) {
        if let Some((directory, name)) = self.split(path) {
            self.enter(directory, vec![(name, None)]);
        }
    }
}
