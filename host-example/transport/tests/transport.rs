//! Messages out of byte streams, however these are cut: lines, events, and what happens to those that are too large.
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lro_transport::{
    Cut, DiskBudget, Event, EventReader, HEAD_BYTES_MAX, Line, Lines, MessageLimits, Permit, Pool, Share, Spool,
    SpoolError, TAIL_BYTES_MAX, write_line,
};
use proptest::prelude::*;
use tempfile::TempDir;

/// Lengths at which [`Lines`] goes another way: the last that it reads on in its buffer with, and that buffer.
const TURNS: [usize; 2] = [48 << 10, 64 << 10];

/// More than any of its buffers, in bytes.
const LONG_BYTES: usize = 700_000;

/// What a stream may begin with.
const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// Limits that no message of a test reaches.
fn roomy() -> Arc<MessageLimits> {
    Arc::new(MessageLimits::default())
}

/// Limits with a directory of their own.
fn limits(directory: &Path, memory_bytes: usize, message_bytes: u64) -> Arc<MessageLimits> {
    let directory = directory.to_owned();
    Arc::new(MessageLimits { memory_bytes, message_bytes, directory, ..MessageLimits::default() })
}

/// A stream that gives its bytes in pieces of these sizes, over and over, and is interrupted before each of them.
struct Pieces<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    is_interrupted: bool,
}

impl<'a> Pieces<'a> {
    fn new(bytes: &'a [u8], sizes: &'a [usize]) -> Self {
        Self { rest: bytes, sizes: sizes.iter().cycle(), is_interrupted: false }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(ErrorKind::Interrupted.into());
        }
        let bytes = (*self.sizes.next().unwrap()).min(buffer.len());
        self.rest.read(&mut buffer[..bytes])
    }
}

/// A line as it was read, for comparisons.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Whole(Vec<u8>),
    Partial(Vec<u8>),
    Cut(u64),
}

fn lines_of(stream: impl Read, limits: &Arc<MessageLimits>) -> Vec<Found> {
    let mut lines = Lines::new(stream, Arc::clone(limits));
    let next = || lines.next().unwrap();
    std::iter::from_fn(next)
        .map(|line| match line {
            Line::Whole(bytes) => Found::Whole(bytes.to_vec()),
            Line::Partial(bytes) => Found::Partial(bytes.to_vec()),
            Line::Cut(cut) => Found::Cut(cut.bytes),
        })
        .collect()
}

/// The lines as anybody would split them; those past the limit are cut.
fn expected_lines(stream: &[u8], message_bytes: u64) -> Vec<Found> {
    let count = stream.iter().filter(|byte| **byte == b'\n').count();
    let lines = stream.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| match line.len() as u64 {
            bytes if bytes > message_bytes => Found::Cut(bytes),
            _ if index < count => Found::Whole(line.to_vec()),
            _ => Found::Partial(line.to_vec()),
        })
        .collect()
}

/// The one line that was cut.
fn cut(line: Option<Line>) -> Cut {
    match line {
        Some(Line::Cut(cut)) => cut,
        other => panic!("{other:?}"),
    }
}

/// The bytes of the one line that was whole.
fn whole(line: Option<Line>) -> Bytes {
    match line {
        Some(Line::Whole(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn events_of(stream: &[u8], sizes: &[usize], limits: &Arc<MessageLimits>) -> (Vec<Event>, Option<Bytes>) {
    let (mut reader, mut events) = (EventReader::new(Arc::clone(limits)), Vec::new());
    let (mut rest, mut sizes) = (stream, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        reader.push(piece, &mut events).unwrap();
        rest = more;
    }
    (events, reader.finish().unwrap())
}

fn event(raw: &str) -> Event {
    let (events, rest) = events_of(raw.as_bytes(), &[raw.len()], &roomy());
    assert_eq!((events.len(), rest), (1, None), "{raw:?}");
    events.into_iter().next().unwrap()
}

/// What a receiver gets of a stream: the data and the id of each event that has data. The way of the standard: the whole
/// stream as text, line by line.
fn received(stream: &str) -> Vec<(String, Option<String>)> {
    let stream = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let (mut found, mut data, mut id) = (Vec::new(), Vec::new(), None);
    for line in stream.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => data.push(value),
            "id" => id = Some(value.to_owned()),
            "" if line.is_empty() => {
                let joined = std::mem::take(&mut data).join("\n");
                let id = id.take();
                if !joined.is_empty() {
                    found.push((joined, id));
                }
            }
            _ => {}
        }
    }
    found
}

fn data_and_ids(events: &[Event]) -> Vec<(String, Option<String>)> {
    let text = |data: Bytes| String::from_utf8(data.to_vec()).unwrap();
    let with_data = |event: &Event| Some((text(event.data()?), event.id().map(str::to_owned)));
    events.iter().filter_map(with_data).collect()
}

fn raw(events: &[Event], rest: Option<&Bytes>) -> Vec<u8> {
    events.iter().map(Event::raw).chain(rest).flatten().copied().collect()
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// Whether this process has a file of the directory open or mapped.
fn is_used(directory: &Path) -> bool {
    // Windows has no files without a name, but removes them when they are closed.
    if cfg!(windows) {
        return entries(directory) > 0;
    }
    let name = directory.to_str().unwrap();
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut open = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    fs::read_to_string("/proc/self/maps").unwrap().contains(name) || open.any(|path| path.starts_with(directory))
}

/// Anonymous memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Lines of any length: none, some bytes, about as long as the buffers are, and longer.
fn any_lines() -> impl Strategy<Value = Vec<u8>> {
    let near = |length: usize| length - 3..length + 4;
    let length = prop_oneof![
        3 => Just(0),
        12 => 1..200_usize,
        1 => near(TURNS[0]),
        1 => near(TURNS[1]),
        1 => 0..LONG_BYTES,
    ];
    let lines = prop::collection::vec((length, any::<bool>()), 0..20);
    (lines, any::<bool>()).prop_map(|(lines, is_ended)| {
        let line = |(index, (length, with_return)): (usize, &(usize, bool))| {
            let mut line = vec![b'a' + (index % 26) as u8; *length];
            if let Some(last) = line.last_mut().filter(|_| *with_return) {
                *last = b'\r';
            }
            line
        };
        let mut stream = lines.iter().enumerate().map(line).collect::<Vec<_>>().join(&b'\n');
        if is_ended {
            stream.push(b'\n');
        }
        stream
    })
}

/// Sizes of the pieces of a stream, in bytes: tiny, about as large as lines, and larger than the buffers.
fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(1..9_usize, 1..5),
        prop::collection::vec(1..5_000_usize, 1..5),
        prop::collection::vec(1..LONG_BYTES, 1..5),
    ]
}

/// Sizes of the pieces of a short stream, in bytes.
fn any_small_sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..40_usize, 1..5)
}

/// Event streams of all that means something there, with every kind of line break and also without.
fn any_stream() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just("data".to_owned()),
        Just("id".to_owned()),
        Just(": ".to_owned()),
        Just("data: {\"a\":1}".to_owned()),
        Just("data:\u{e9}".to_owned()),
        Just("id: 7".to_owned()),
        Just("event: message".to_owned()),
        Just(": comment".to_owned()),
        Just(" data: no".to_owned()),
        Just(String::new()),
        "[a-z: ]{0,20}",
    ];
    let line_break = prop_oneof![4 => Just("\n"), 2 => Just("\r\n"), 2 => Just("\r"), 1 => Just("")];
    let line = (text, line_break).prop_map(|(text, line_break)| text + line_break);
    let lines = prop::collection::vec(line, 0..30);
    (any::<bool>(), lines).prop_map(|(is_marked, lines)| {
        let mark = if is_marked { BYTE_ORDER_MARK } else { "" };
        mark.to_owned() + &lines.concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines are the same wherever reads end, whatever of them goes through a file, and whichever are too long.
    #[test]
    fn lines_do_not_depend_on_reads(
        stream in any_lines(),
        sizes in any_sizes(),
        memory_bytes in prop_oneof![Just(0), 1..200_000_usize, Just(usize::MAX)],
        message_bytes in prop_oneof![3 => Just(u64::MAX), 1 => 0..400_u64, 1 => 0..300_000_u64],
    ) {
        let directory = TempDir::new().unwrap();
        let limits = limits(directory.path(), memory_bytes, message_bytes);
        let found = lines_of(Pieces::new(&stream, &sizes), &limits);
        prop_assert_eq!(found, expected_lines(&stream, message_bytes));
        prop_assert_eq!(entries(directory.path()), 0);
    }

    /// A message collected in any pieces comes out as it went in.
    #[test]
    fn a_spool_keeps_every_byte(sizes in prop::collection::vec(0..100_000_usize, 0..12), memory_bytes in 0..300_000_usize) {
        let directory = TempDir::new().unwrap();
        let mut spool = Spool::new(limits(directory.path(), memory_bytes, u64::MAX));
        let mut expected = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let piece = vec![index as u8; *size];
            spool.push(&piece).unwrap();
            expected.extend(piece);
            prop_assert_eq!((spool.len(), spool.is_empty()), (expected.len() as u64, expected.is_empty()));
        }
        prop_assert!(spool.finish().unwrap() == expected);
    }

    /// What is written as a line is one line, and the same JSON.
    #[test]
    fn a_message_becomes_one_line(before in "[ \n\r\t]{0,3}", text in ".{0,20}", size in 0..100_000_usize) {
        let value = serde_json::json!({"text": text, "more": "m".repeat(size)});
        let message = before + &serde_json::to_string_pretty(&value).unwrap();
        let mut written = Vec::new();
        write_line(&mut written, &Bytes::copy_from_slice(message.as_bytes())).unwrap();
        let line = written.strip_suffix(b"\n").unwrap();
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(line).unwrap(), value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The events are those that the standard finds, wherever the stream is cut, and no byte of it gets lost.
    #[test]
    fn events_do_not_depend_on_chunks(stream in any_stream(), sizes in any_small_sizes()) {
        for memory_bytes in [usize::MAX, 5] {
            let limits = limits(&std::env::temp_dir(), memory_bytes, u64::MAX);
            let (events, rest) = events_of(stream.as_bytes(), &sizes, &limits);
            prop_assert_eq!(raw(&events, rest.as_ref()), stream.as_bytes());
            prop_assert_eq!(data_and_ids(&events), received(&stream));
        }
    }

    /// With other data in its events, a stream has these, and every other line as before.
    #[test]
    fn other_data_leaves_other_fields(stream in any_stream(), sizes in any_small_sizes(), data in "[a-z\n]{1,30}") {
        let (events, rest) = events_of(stream.as_bytes(), &sizes, &roomy());
        let data = Bytes::from(data);
        let replaced = events.iter().map(|event| match event.data() {
            Some(_) => Bytes::from(event.with_data(&data).concat()),
            None => event.raw().clone(),
        });
        let changed = String::from_utf8(replaced.chain(rest).flatten().collect()).unwrap();
        let text = String::from_utf8(data.to_vec()).unwrap();
        let expected: Vec<_> = received(&stream).into_iter().map(|(_, id)| (text.clone(), id)).collect();
        prop_assert_eq!(received(&changed), expected, "{:?}", changed);
        prop_assert_eq!(other_lines(&changed), other_lines(&stream));
    }
}

/// The lines of a stream that are neither data nor comments.
fn other_lines(stream: &str) -> Vec<&str> {
    let stream = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
    let lines = stream.split(['\r', '\n']).filter(|line| !line.is_empty());
    lines.filter(|line| !matches!(line.split(':').next(), Some("data" | ""))).collect()
}

#[test]
fn the_end_of_a_stream_may_cut_a_line() {
    for length in [1, TURNS[0] + 1, LONG_BYTES] {
        let stream = [b"first\n".as_slice(), &vec![b'x'; length]].concat();
        let found = lines_of(stream.as_slice(), &roomy());
        assert_eq!(found, [Found::Whole(b"first".to_vec()), Found::Partial(vec![b'x'; length])]);
    }
    assert_eq!(lines_of(b"\n\n\n".as_slice(), &roomy()), []);
}

#[test]
fn an_error_of_the_stream_is_told() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::ConnectionReset.into())
        }
    }
    let mut lines = Lines::new(b"whole\npart".chain(Broken), roomy());
    assert_eq!(whole(lines.next().unwrap()), "whole");
    assert_eq!(lines.next().unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// Past the memory it may take, a line is in a file that has no name and that goes with the last of its bytes.
#[test]
fn a_long_line_goes_through_a_file_that_vanishes() {
    let root = TempDir::new().unwrap();
    let directory = root.path().join("made/when/needed");
    let line: Vec<u8> = (0..LONG_BYTES).map(|index| b'a' + (index % 26) as u8).collect();
    let stream = [&line, b"\nshort\n".as_slice()].concat();
    let mut lines = Lines::new(stream.as_slice(), limits(&directory, 100_000, u64::MAX));
    let found = whole(lines.next().unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(is_used(&directory));
    let part = found.slice(10..20);
    assert!(found == line);
    drop(found);
    assert_eq!(part, line[10..20]);
    drop(part);
    assert!(!is_used(&directory));
    assert_eq!(whole(lines.next().unwrap()), "short");
    assert_eq!(entries(&directory), 0);
}

/// A line of 200 MB takes no more memory than was allowed, and the buffers. Linux says what of the memory is anonymous.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_a_line() {
    use std::cell::Cell;
    use std::rc::Rc;

    const LINE_BYTES: u64 = 200_000_000;
    /// What the other tests of this process may take at the same time, in bytes.
    const OTHERS_BYTES: u64 = 64 << 20;

    struct Watched<R> {
        stream: R,
        reads: usize,
        peak: Rc<Cell<u64>>,
    }
    impl<R: Read> Read for Watched<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            if self.reads.is_multiple_of(32) {
                self.peak.set(self.peak.get().max(anonymous_bytes()));
            }
            self.stream.read(buffer)
        }
    }

    let directory = TempDir::new().unwrap();
    let (before, peak) = (anonymous_bytes(), Rc::new(Cell::new(0)));
    let stream = io::repeat(b'x').take(LINE_BYTES).chain(b"\nnext\n".as_slice());
    let watched = Watched { stream, reads: 0, peak: Rc::clone(&peak) };
    let mut lines = Lines::new(watched, limits(directory.path(), 1 << 20, u64::MAX));
    let line = whole(lines.next().unwrap());
    assert_eq!(line.len() as u64, LINE_BYTES);
    assert!(line.iter().all(|byte| *byte == b'x'));
    let peak = peak.get().max(anonymous_bytes());
    assert!(peak > 0 && peak < before + OTHERS_BYTES, "{before} bytes before, {peak} bytes then");
    drop(line);
    assert_eq!(whole(lines.next().unwrap()), "next");
}

/// Of a line past the limit, its beginning and end are there, and the next line is read as if nothing had happened.
#[test]
fn a_line_past_the_limit_is_cut() {
    for (limit, length) in [(100, 101), (100, TURNS[0]), (300_000, LONG_BYTES), (0, LONG_BYTES)] {
        let directory = TempDir::new().unwrap();
        let line: Vec<u8> = (0..length).map(|index| b'a' + (index / 7 % 26) as u8).collect();
        let stream = [b"?\n".as_slice(), &line, b"\n!\n"].concat();
        let mut lines = Lines::new(stream.as_slice(), limits(directory.path(), 1000, limit));
        let first = lines.next().unwrap();
        assert_eq!(matches!(first, Some(Line::Whole(_))), limit > 0);
        let cut = cut(lines.next().unwrap());
        assert_eq!(cut.bytes, length as u64);
        assert_eq!(cut.head, line[..length.min(HEAD_BYTES_MAX)]);
        assert_eq!(cut.tail, line[length.saturating_sub(TAIL_BYTES_MAX)..]);
        assert!(matches!(cut.reason, SpoolError::TooLarge { limit: told } if told == limit));
        assert!(cut.reason.to_string().contains("gateway.message-bytes"), "{}", cut.reason);
        assert_eq!(matches!(lines.next().unwrap(), Some(Line::Whole(_))), limit > 0);
        assert!(lines.next().unwrap().is_none());
        assert_eq!(entries(directory.path()), 0);
    }
}

/// A directory that cannot be used: the line is cut for that reason, and only a line that needs it.
#[test]
fn a_line_that_cannot_be_kept_is_cut() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    // A name that Windows does not take.
    let impossible = if cfg!(windows) { root.path().join("?") } else { PathBuf::from("/proc/self/none") };
    for directory in [file.clone(), file.join("below"), impossible] {
        let line = vec![b'x'; LONG_BYTES];
        let stream = [b"small\n".as_slice(), &line, b"\nnext\n"].concat();
        let mut lines = Lines::new(stream.as_slice(), limits(&directory, 100_000, u64::MAX));
        assert_eq!(whole(lines.next().unwrap()), "small");
        let cut = cut(lines.next().unwrap());
        assert_eq!((cut.bytes, cut.head.len(), cut.tail.len()), (LONG_BYTES as u64, HEAD_BYTES_MAX, TAIL_BYTES_MAX));
        let text = cut.reason.to_string();
        assert!(matches!(cut.reason, SpoolError::Io { directory: told, .. } if told == directory));
        assert!(text.contains("`dir`") && !text.contains(directory.to_str().unwrap()), "{text}");
        assert_eq!(whole(lines.next().unwrap()), "next");
    }
}

/// Messages share the room in files, and give it back when nobody has them any more.
#[test]
fn messages_in_files_are_bounded_together() {
    let message = vec![b'x'; 400_000];
    let limits = MessageLimits { memory_bytes: 1000, disk: DiskBudget::new(1_000_000), ..MessageLimits::default() };
    let other = Arc::new(MessageLimits { disk: limits.disk.another(), ..limits.clone() });
    let limits = Arc::new(limits);
    let keep = |limits: &Arc<MessageLimits>| {
        let mut spool = Spool::new(Arc::clone(limits));
        message.chunks(70_001).try_for_each(|piece| spool.push(piece))?;
        spool.finish()
    };
    let kept = [keep(&limits).unwrap(), keep(&limits).unwrap()];
    let error = keep(&limits).unwrap_err();
    assert!(matches!(error, SpoolError::Full { limit: 1_000_000 }), "{error}");
    assert!(error.to_string().contains("gateway.message-disk"), "{error}");
    let [first, second] = kept;
    let part = first.slice(..10);
    drop(first);
    keep(&limits).unwrap_err();
    drop(part);
    assert_eq!(keep(&limits).unwrap(), message, "what a refused message had is given back too");
    assert_eq!(keep(&other).unwrap(), second, "others have room of their own");
    let mut small = Spool::new(Arc::clone(&limits));
    small.push(b"small").unwrap();
    let _more = keep(&limits).unwrap();
    assert_eq!(small.finish().unwrap(), "small", "what stays in memory needs none");
}

#[test]
fn an_event_past_the_limit_is_refused() {
    let limits = limits(&std::env::temp_dir(), 5, 20);
    let (mut reader, mut events) = (EventReader::new(limits), Vec::new());
    reader.push(b"data: short\n\ndata: ", &mut events).unwrap();
    let error = reader.push(b"much longer than that", &mut events).unwrap_err();
    assert!(matches!(error, SpoolError::TooLarge { limit: 20 }));
    reader.push(b"\n\ndata: ignored\n\n", &mut events).unwrap();
    assert_eq!((events.len(), reader.finish().unwrap()), (1, None));
}

#[test]
fn the_last_id_counts() {
    assert_eq!(event("data: x\n\n").id(), None);
    assert_eq!(event("id: 1\ndata: x\nid:2\r\n\n").id(), Some("2"));
    assert_eq!(event("id\n\n").id(), Some(""));
    assert_eq!(event("ids: 1\n: id: 2\n\n").id(), None);
    assert_eq!(event("id: 1\nid: \0\n\n").id(), Some("1"), "an id with a zero does not count");
}

#[test]
fn the_last_name_counts() {
    assert_eq!(event("data: x\n\n").name(), None);
    assert_eq!(event("event: a\nevent:b\n\n").name(), Some("b"));
    assert_eq!(event("event: a\nevent\n\n").name(), None);
}

#[test]
fn data_is_what_its_lines_say() {
    let data = |raw| event(raw).data().map(|data| String::from_utf8(data.to_vec()).unwrap());
    assert_eq!(data(": only a comment\n\n"), None);
    assert_eq!(data("id: 1\ndata:\n\n"), None);
    assert_eq!(data("data\ndata\n\n").as_deref(), Some("\n"));
    assert_eq!(data("data:  two\r\ndata:lines\r\r").as_deref(), Some(" two\nlines"));
}

/// A byte order mark belongs to the beginning of the stream alone; later it makes another field of the line.
#[test]
fn a_byte_order_mark_is_skipped_once() {
    let stream = format!("{BYTE_ORDER_MARK}data: 1\n\n{BYTE_ORDER_MARK}data: 2\n\n");
    let (events, rest) = events_of(stream.as_bytes(), &[5], &roomy());
    assert_eq!(events.iter().map(Event::data).collect::<Vec<_>>(), [Some(Bytes::from("1")), None]);
    assert_eq!((raw(&events, None), rest), (stream.into_bytes(), None));
}

#[test]
fn other_data_takes_the_place_of_all_data() {
    let other = |raw, data: &'static str| {
        let pieces = event(raw).with_data(&Bytes::from(data));
        String::from_utf8(pieces.concat()).unwrap()
    };
    let raw = ": hello\nevent: message\r\nid: 9\rdata: a\ndata: b\nretry: 5\n\n";
    assert_eq!(other(raw, "{}"), ": hello\nevent: message\r\nid: 9\rdata: {}\nretry: 5\n\n");
    assert_eq!(other("data: a\n\n", "1\n2"), "data: 1\ndata: 2\n\n");
    assert_eq!(other("data: a\n\n", ""), "data: \n\n");
    // A carriage return that comes to stand before a line feed would be one line break with it.
    assert_eq!(event(&other("data: a\nid: 1\rdata: b\n\n", "c")).data(), Some(Bytes::from("c")));
}

// Who holds much leaves the last eighth to the others.
#[test]
fn a_pool_is_shared() {
    let pool = Pool::new(80);
    let mut of_one: Vec<Permit<&str>> = std::iter::from_fn(|| pool.take(&"one", 1)).collect();
    assert_eq!(of_one.len(), 70);
    assert!(pool.take(&"two", 11).is_none(), "more than there is");
    let of_two: Vec<Permit<&str>> = std::iter::from_fn(|| pool.take(&"two", 1)).collect();
    assert_eq!(of_two.len(), 10);
    assert!(pool.take(&"three", 1).is_none() && pool.take(&"three", u64::MAX).is_none());
    of_one.pop();
    assert!(pool.take(&"one", 1).is_none(), "what is free is for others first");
    assert_eq!(pool.take(&"three", 1).unwrap().holder(), &"three");
    drop((of_one, of_two));
    assert!(pool.take(&"one", 80).is_none());
    assert!(pool.take(&"one", 70).is_some(), "all that was dropped is free");
    let few = Pool::new(3);
    assert!(few.take(&"one", 3).is_some(), "of few, one may have all");
}

// What finds no memory goes to a file, and memory is free again when its message is dropped.
#[test]
fn memory_of_messages_is_shared() {
    let directory = tempfile::tempdir().unwrap();
    let share = Share { pool: Pool::new(1 << 20), holder: "one".to_owned() };
    let limits =
        MessageLimits { directory: directory.path().join("spool"), share: share.clone(), ..MessageLimits::default() };
    let limits = Arc::new(limits);
    let message = |bytes: usize| {
        let mut spool = Spool::new(Arc::clone(&limits));
        let whole: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        for piece in whole.chunks(10_000) {
            spool.push(piece).unwrap();
        }
        let message = spool.finish().unwrap();
        assert!(message == whole, "{bytes} bytes");
        message
    };
    let small: Vec<Bytes> = (0..100).map(|_| message(60_000)).collect();
    let first = message(500_000);
    assert!(!directory.path().join("spool").exists(), "so far there is memory for all");
    let part = first.slice(1..2);
    drop((first, small));
    let second = message(900_000);
    assert!(directory.path().join("spool").exists());
    drop((part, second));
    assert!(share.take(900_000).is_some(), "all of it is free again");
}
