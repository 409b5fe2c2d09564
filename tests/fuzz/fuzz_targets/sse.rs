//! Events are those of the standard, wherever the stream is cut; no byte is lost; and replacing the data of events
//! preserves everything else.
#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lro_transport::{Event, EventReader, MessageLimits};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Replacement of the data of events.
const OTHER: [&[u8]; 3] = [b"{}", b"1\n2\r\n3\r4", b"\n "];

/// Most bytes of an event in memory.
const MEMORY_BYTES: [usize; 2] = [7, usize::MAX];

/// An event as a receiver sees it.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    data: Vec<u8>,
    name: Option<String>,
    id: Option<String>,
}

/// The lines of a stream, and the text after the last line break.
fn lines(stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut rest = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
    let mut found = Vec::new();
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        found.push(&rest[..end]);
        rest = &rest[end..];
        rest = rest.strip_prefix(b"\r\n").unwrap_or_else(|| &rest[1..]);
    }
    (found, rest)
}

/// The name of a field, and its value.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b':') {
        Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
        None => (line, b""),
    }
}

/// The events of a stream with data, parsed line by line as in the standard.
fn received(stream: &[u8]) -> Vec<Received> {
    let (mut found, mut data, mut name, mut id) = (Vec::new(), Vec::new(), &b""[..], None);
    for line in lines(stream).0 {
        match field(line) {
            _ if line.is_empty() => {
                let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
                let data = std::mem::take(&mut data).join(&b'\n');
                let name = text(std::mem::take(&mut name)).filter(|name| !name.is_empty());
                let id = id.take().and_then(text);
                if !data.is_empty() {
                    found.push(Received { data, name, id });
                }
            }
            (b"data", value) => data.push(value),
            (b"event", value) => name = value,
            (b"id", value) if !value.contains(&0) => id = Some(value),
            _ => {}
        }
    }
    found
}

/// Everything of a stream but data and blank lines.
fn other_lines(stream: &[u8]) -> Vec<&[u8]> {
    let (lines, rest) = lines(stream);
    let others = lines.into_iter().filter(|line| !line.is_empty() && field(line).0 != b"data");
    others.chain([rest]).collect()
}

fn read(stream: &[u8], size: usize, limits: &Arc<MessageLimits>) -> (Vec<Event>, Option<Bytes>) {
    let (mut reader, mut events) = (EventReader::new(Arc::clone(limits)), Vec::new());
    for chunk in stream.chunks(size) {
        reader.push(chunk, &mut events).expect("no limit");
    }
    (events, reader.finish().expect("no limit"))
}

fn of_event(event: &Event) -> Option<Received> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Some(Received { data: event.data()?.to_vec(), name: owned(event.name()), id: owned(event.id()) })
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else { return };
    let memory_bytes = MEMORY_BYTES[usize::from(choice) % 2];
    let limits = MessageLimits { memory_bytes, message_bytes: u64::MAX, ..MessageLimits::default() };
    let (limits, size) = (Arc::new(limits), usize::from(choice >> 1) + 1);
    let (events, rest) = read(stream, size, &limits);

    let raw: Vec<u8> = events.iter().map(Event::raw).chain(&rest).flatten().copied().collect();
    assert_eq!(raw, stream);
    let expected = received(stream);
    assert_eq!(events.iter().filter_map(of_event).collect::<Vec<_>>(), expected);

    let other = OTHER[usize::from(choice) % 3];
    let replaced = events.iter().map(|event| match event.data() {
        Some(_) => Bytes::from(event.with_data(&Bytes::from_static(other)).concat()),
        None => event.raw().clone(),
    });
    let changed: Vec<u8> = replaced.chain(rest).flatten().collect();
    let (mut data, last) = lines(other);
    data.push(last);
    let data = data.join(&b'\n');
    let expected: Vec<_> = expected.into_iter().map(|event| Received { data: data.clone(), ..event }).collect();
    assert_eq!(received(&changed), expected);
    assert_eq!(other_lines(&changed), other_lines(stream));
});
