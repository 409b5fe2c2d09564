//! Reading published files: by line and by range, verified.
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fs;
#[cfg(target_os = "linux")]
use std::fs::FileTimes;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::Path;
#[cfg(unix)]
use std::thread;
#[cfg(unix)]
use std::time::{Duration, SystemTime};

use lro_host::store::{
    Digest, FileKind, INDEX_ENTRY_BYTES, INDEX_STEP_BYTES, MANIFEST_NAME, Offload, Section, StoreError,
};
use proptest::prelude::*;
use support::{HEADER, lines_of, open, publish, rows};

/// Bytes that the calling thread has read from files.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let counters = fs::read_to_string("/proc/thread-self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Content with lines of any length: none, a few bytes, about as long as the distance of two index entries, and longer.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![
        8 => 0..200_usize,
        2 => 0..5_000_usize,
        1 => INDEX_STEP_BYTES as usize - 20..INDEX_STEP_BYTES as usize + 20,
        1 => 0..200_000_usize,
    ];
    let lines = prop::collection::vec(length, 0..60).prop_map(|lengths| {
        let lines = lengths.iter().enumerate().map(|(n, length)| vec![b'a' + (n % 26) as u8; *length]);
        lines.collect::<Vec<_>>().join(&b'\n')
    });
    (lines, any::<bool>()).prop_map(|(mut content, is_ended)| {
        if is_ended {
            content.push(b'\n');
        }
        content
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_line_is_found_where_it_is(
        content in content(),
        is_text: bool,
        (count, bytes) in (1..20_usize, 1..100_000_usize),
    ) {
        let (_directory, store) = open();
        let kind = if is_text { FileKind::Text } else { FileKind::Records };
        let offload = publish(&store, kind, &content);
        let reader = offload.open("items").unwrap();
        reader.verify().unwrap();
        let lines = lines_of(&content);
        prop_assert_eq!(reader.record().records, lines.len() as u64);
        for (number, line) in (0..).zip(&lines) {
            let range = reader.line(number).unwrap().unwrap();
            let length = (range.end - range.start) as usize;
            prop_assert!(reader.bytes(range.start, length).unwrap() == *line, "line {}", number);
        }
        prop_assert_eq!(reader.line(lines.len() as u64).unwrap(), None);
        prop_assert_eq!(reader.line(u64::MAX).unwrap(), None);
        for first in 0..=lines.len() {
            let mut room = bytes;
            let fits = |line: &&&[u8]| room.checked_sub(line.len()).map(|left| room = left).is_some();
            let expected: Vec<_> = lines[first..].iter().take(count).take_while(fits).collect();
            let found = reader.lines(first as u64, count, bytes).unwrap();
            prop_assert!(found.iter().eq(expected), "from line {}", first);
        }
    }

    #[test]
    fn the_index_is_what_its_documentation_says(content in content()) {
        let (_directory, store) = open();
        let offload = publish(&store, FileKind::Records, &content);
        let file = &offload.record().files[0];
        let path = offload.path().join(".a.jsonl.index");
        let whole = [HEADER.as_bytes(), &content].concat();
        prop_assert_eq!(file.index.is_some(), whole.len() as u64 > INDEX_STEP_BYTES);
        prop_assert_eq!(path.exists(), file.index.is_some());
        let Some(index) = &file.index else { return Ok(()) };
        let found = fs::read(path).unwrap();
        prop_assert_eq!((index.bytes, index.sha256), (found.len() as u64, Digest::of(&found)));
        prop_assert_eq!(index.bytes, (whole.len() as u64).div_ceil(INDEX_STEP_BYTES) * INDEX_ENTRY_BYTES);
        let mut begins = Vec::new();
        let mut at = HEADER.len();
        for line in lines_of(&content) {
            begins.push(at as u64);
            at += line.len() + 1;
        }
        for (k, entry) in (0..).zip(found.chunks(16)) {
            let number = begins.iter().position(|begin| *begin >= k * INDEX_STEP_BYTES).unwrap_or(begins.len());
            let offset = begins.get(number).copied().unwrap_or(whole.len() as u64);
            prop_assert_eq!(entry, [(number as u64).to_le_bytes(), offset.to_le_bytes()].concat());
        }
    }
}

#[test]
fn a_file_that_is_not_of_lines_is_read_by_ranges() {
    let (_directory, store) = open();
    let content: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let offload = publish(&store, FileKind::Bytes, &content);
    let reader = offload.open("a.jsonl").unwrap();
    reader.verify().unwrap();
    assert_eq!(offload.record().files[0].index.as_ref().map(|index| index.bytes), None);
    assert_eq!((reader.line(0).unwrap(), reader.lines(0, 10, 1000).unwrap()), (None, Vec::new()));
    assert_eq!(reader.bytes(70_000, 5).unwrap(), &content[70_000..70_005]);
    assert_eq!(reader.bytes(199_998, 5).unwrap(), &content[199_998..]);
    assert_eq!(reader.bytes(200_000, 5).unwrap(), b"");
    assert_eq!(reader.bytes(u64::MAX, 5).unwrap(), b"");
    assert!(matches!(offload.open("other"), Err(StoreError::NotFound { .. })));
}

/// What opening, verifying, or reading the last line says.
fn refusal(offload: &Offload) -> String {
    let read = offload.open("items").and_then(|reader| {
        reader.verify()?;
        reader.line(reader.record().records - 1)
    });
    match read {
        Err(error @ StoreError::Changed { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_changed_file_is_refused_with_both_digests() {
    let (directory, store) = open();
    let content = rows(10_000);
    let offload = publish(&store, FileKind::Records, &content);
    let file = &offload.record().files[0];
    let index = file.index.as_ref().unwrap();
    let (path, index_path) = (offload.path().join("a.jsonl"), offload.path().join(".a.jsonl.index"));
    let whole = fs::read(&path).unwrap();
    let mut flipped = content.clone();
    flipped[200_000] ^= 1;
    let last_line = content.len() - lines_of(&content).last().unwrap().len() - 1;
    for changed in [&flipped, &content[..last_line], &[&content, &b"{}\n"[..]].concat(), &b""[..]] {
        fs::write(&path, [HEADER.as_bytes(), changed].concat()).unwrap();
        let error = refusal(&offload);
        for part in ["a.jsonl", &file.sha256.unwrap().to_string(), &Digest::of(changed).to_string()] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }
    // The header line has no digest, but a length.
    fs::write(&path, [b"{}", &whole[..]].concat()).unwrap();
    assert!(refusal(&offload).contains(&format!("found {} bytes", whole.len() + 2)));

    let elsewhere = directory.path().join("elsewhere");
    fs::write(&elsewhere, &whole).unwrap();
    let replace = |path: &Path, expected: Digest| {
        let original = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let mut refusals = vec![(refusal(&offload), "no file")];
        #[cfg(unix)]
        {
            symlink(&elsewhere, path).unwrap();
            refusals.push((refusal(&offload), "symbolic link"));
            fs::remove_file(path).unwrap();
        }
        fs::hard_link(&elsewhere, path).unwrap();
        refusals.push((refusal(&offload), "another name"));
        fs::remove_file(path).unwrap();
        for (error, found) in refusals {
            assert!(error.contains(found) && error.contains(&expected.to_string()), "{error}");
            assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
        }
        fs::write(path, original).unwrap();
    };
    fs::write(&path, &whole).unwrap();
    replace(&path, file.sha256.unwrap());
    replace(&index_path, index.sha256);

    let original = fs::read(&index_path).unwrap();
    let mut changed = original.clone();
    changed[17] ^= 1;
    fs::write(&index_path, &changed).unwrap();
    let error = refusal(&offload);
    assert!(error.contains(&index.sha256.to_string()) && error.contains(&Digest::of(&changed).to_string()), "{error}");
    fs::write(&index_path, &original[..16]).unwrap();
    assert!(refusal(&offload).contains(".a.jsonl.index"));
    fs::write(&index_path, &original).unwrap();
    offload.open("items").unwrap().verify().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_verified_file_is_hashed_again_only_when_it_changed() {
    let (_directory, store) = open();
    let content = rows(100_000);
    let offload = publish(&store, FileKind::Records, &content);
    let path = offload.path().join("a.jsonl");
    let verify = || {
        let before = bytes_read();
        let result = offload.open("items").unwrap().verify();
        (result.is_ok(), bytes_read() - before > content.len() as u64)
    };
    assert_eq!([verify(), verify()], [(true, true); 2], "a young file may change once more at the same time");
    thread::sleep(Duration::from_millis(2100));
    assert_eq!([verify(), verify(), verify()], [(true, true), (true, false), (true, false)]);
    let again = store.find("team", offload.id()).unwrap();
    let before = bytes_read();
    again.open("items").unwrap().verify().unwrap();
    assert!(bytes_read() - before < 10_000, "the store remembers, whoever asks");

    let (mut whole, modified) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    whole[50_000] ^= 1;
    fs::write(&path, &whole).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_times(FileTimes::new().set_modified(modified)).unwrap();
    assert_eq!(verify(), (false, true), "the same file, size and time of modification");
    thread::sleep(Duration::from_millis(2100));
    assert_eq!([verify(), verify()], [(false, true); 2], "a refusal is not remembered");
    whole[50_000] ^= 1;
    fs::write(&path, &whole).unwrap();
    assert_eq!(verify(), (true, true));
}

/// Files of other writers have a digest alone, and damage to a checksum is no damage to the file.
#[test]
fn without_its_checksum_a_file_is_verified_by_its_digest() {
    let (_directory, store) = open();
    let content = rows(10_000);
    let offload = publish(&store, FileKind::Records, &content);
    let manifest = offload.path().join(MANIFEST_NAME);
    let text = fs::read_to_string(&manifest).unwrap();
    let checksum = offload.record().files[0].xxh3;
    let written = serde_json::to_string(&checksum).unwrap();
    let (path, whole) = (offload.path().join("a.jsonl"), [HEADER.as_bytes(), &content].concat());
    for other in ["null", "\"0123456789abcdef\""] {
        fs::write(&manifest, text.replacen(&written, other, 1)).unwrap();
        let offload = store.find("team", offload.id()).unwrap();
        assert_ne!(offload.record().files[0].xxh3, checksum);
        offload.open("items").unwrap().verify().unwrap();
        let mut changed = whole.clone();
        changed[100_000] ^= 1;
        fs::write(&path, &changed).unwrap();
        assert!(refusal(&offload).contains("SHA-256"));
        fs::write(&path, &whole).unwrap();
    }
}

// On Windows, an open file is in the way of its removal.
#[cfg(unix)]
#[test]
fn an_open_reader_survives_the_removal() {
    let (_directory, store) = open();
    let content = rows(10_000);
    let offload = publish(&store, FileKind::Records, &content);
    let reader = offload.open("items").unwrap();
    store.sweep(SystemTime::now() + Duration::from_secs(4000)).unwrap();
    assert!(!offload.path().exists());
    assert!(matches!(offload.open("items"), Err(StoreError::NotFound { .. })));
    // One thread verifies while another reads.
    thread::scope(|scope| {
        let verified = scope.spawn(|| reader.verify());
        assert_eq!(reader.lines(9_999, 1, 1000).unwrap(), [br#"{"id":9999,"name":"row 9999"}"#]);
        verified.join().unwrap().unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_record_far_away_is_reached_at_once() {
    let (_directory, store) = open();
    let offload = publish(&store, FileKind::Records, &rows(1_000_000));
    let before = bytes_read();
    let line = offload.open("items").unwrap().lines(900_000, 1, 1000).unwrap();
    let read = bytes_read() - before;
    assert_eq!(line, [br#"{"id":900000,"name":"row 900000"}"#]);
    assert!(read < 1 << 20, "{read} bytes of 32 MB were read");
}
