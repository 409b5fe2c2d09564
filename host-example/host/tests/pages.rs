//! Pages and cursors through their public face.
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::collections::HashSet;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::{StreamExt, TryStreamExt};
use lro_host::mcp::{ListError, ListPage, list_items};
use lro_host::read::{
    Cursor, CursorError, CursorKey, ListCursor, PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_RECORDS_MAX,
    Page, PageContent, PageError, PagePart, PageRequest, PageSize, Pages, Position, Start,
};
use lro_host::store::{Digest, FileKind, Fsync, Offload, Store, StoreConfig, StoreError, Ulid};
use proptest::prelude::*;
use support::{HEADER, lines_of, open, publish, publish_as, rows};

fn request(offload: &Offload) -> PageRequest {
    PageRequest::new("team", offload.id(), "items")
}

/// Pages of fifty records.
fn fifty(offload: &Offload) -> PageRequest {
    PageRequest { records: Some(50), ..request(offload) }
}

fn from_cursor(offload: &Offload, cursor: &str) -> PageRequest {
    PageRequest { start: Start::Cursor(cursor.to_owned()), ..request(offload) }
}

fn from_record(offload: &Offload, record: u64) -> PageRequest {
    PageRequest { start: Start::Record(record), ..request(offload) }
}

/// All pages from a request on.
fn walk(pages: &Pages, request: PageRequest) -> Vec<Page> {
    let (mut found, mut request) = (Vec::new(), request);
    loop {
        let page = pages.page(&request).unwrap();
        let next = page.next.clone();
        found.push(page);
        let Some(next) = next else { return found };
        request = PageRequest { start: Start::Cursor(next), bytes: None, records: None, ..request };
    }
}

/// Runs a future on a runtime of its own.
fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// All records that a stream returns.
fn streamed(pages: &Pages, request: PageRequest) -> Vec<String> {
    run(pages.records(request).try_collect()).unwrap()
}

fn records(page: &Page) -> &[String] {
    match &page.content {
        PageContent::Records(records) => records,
        other => panic!("{other:?}"),
    }
}

fn part(page: &Page) -> &PagePart {
    match &page.content {
        PageContent::Text(part) | PageContent::Base64(part) => part,
        other => panic!("{other:?}"),
    }
}

fn cursor_error(result: Result<Page, PageError>) -> CursorError {
    match result {
        Err(PageError::Cursor(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    let character = prop::sample::select(vec!['a', '"', 'é', '語', '🦀']);
    let short = prop::collection::vec(character.clone(), 0..60);
    let long = prop::collection::vec(character, 0..3000);
    let line = prop_oneof![6 => short, 1 => long].prop_map(|characters| characters.into_iter().collect::<String>());
    prop::collection::vec(line, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    // Every record once, whatever the sizes.
    #[test]
    fn a_walk_meets_every_record_once(
        lines in lines(),
        (is_text, is_ended) in any::<(bool, bool)>(),
        bytes in PAGE_BYTES_MIN..4000,
        count in 1..60_u32,
    ) {
        let (_directory, store) = open();
        let mut content = lines.join("\n");
        if is_ended || lines.last().is_some_and(String::is_empty) {
            content.push('\n');
        }
        let expected: Vec<&str> =
            lines_of(content.as_bytes()).into_iter().map(|line| std::str::from_utf8(line).unwrap()).collect();
        let kind = if is_text { FileKind::Text } else { FileKind::Records };
        let offload = publish(&store, kind, content.as_bytes());
        let pages = Pages::new(store).unwrap();
        let sized = PageRequest { bytes: Some(bytes), records: Some(count), ..request(&offload) };
        prop_assert!(streamed(&pages, sized.clone()) == expected);
        let all = walk(&pages, sized);

        let (mut found, mut open) = (Vec::<String>::new(), String::new());
        for page in &all {
            prop_assert_eq!((page.first, page.total), (found.len() as u64, expected.len() as u64));
            match &page.content {
                PageContent::Records(records) => {
                    prop_assert!(records.len() as u32 <= count && open.is_empty());
                    prop_assert!(records.iter().map(String::len).sum::<usize>() <= bytes as usize);
                    found.extend(records.iter().cloned());
                }
                PageContent::Text(part) => {
                    prop_assert!(part.data.len() <= bytes as usize && part.record_bytes > u64::from(bytes));
                    prop_assert_eq!((part.offset, part.bytes), (open.len() as u64, part.data.len() as u64));
                    open.push_str(&part.data);
                    if open.len() as u64 == part.record_bytes {
                        found.push(std::mem::take(&mut open));
                    }
                }
                PageContent::Base64(_) => prop_assert!(false),
            }
        }
        prop_assert!(found == expected && open.is_empty());
        // No page could have held the beginning of the next one as well.
        for (page, next) in all.iter().zip(all.iter().skip(1)) {
            if let (PageContent::Records(records), PageContent::Records(following)) = (&page.content, &next.content) {
                let size = records.iter().chain(following.first()).map(String::len).sum::<usize>();
                prop_assert!(records.len() as u32 == count || size > bytes as usize);
            }
        }
    }

    // Files without records, by ranges.
    #[test]
    fn ranges_add_up_to_the_file(
        content in prop::collection::vec(any::<u8>(), 0..5000),
        lines in lines(),
        bytes in PAGE_BYTES_MIN..4000,
    ) {
        let (_directory, store) = open();
        let pages = Pages::new(store.clone()).unwrap();
        let value = lines.concat();
        for (kind, content) in [(FileKind::Bytes, &content[..]), (FileKind::Value, value.as_bytes())] {
            let offload = publish(&store, kind, content);
            let mut found = Vec::new();
            for page in walk(&pages, PageRequest { bytes: Some(bytes), ..request(&offload) }) {
                let part = part(&page);
                prop_assert_eq!((part.offset, part.record_bytes), (found.len() as u64, content.len() as u64));
                prop_assert!(part.data.len() <= bytes as usize && (page.first, page.total) == (0, 1));
                match &page.content {
                    PageContent::Base64(part) => found.extend(STANDARD.decode(&part.data).unwrap()),
                    _ => found.extend(part.data.as_bytes()),
                }
            }
            prop_assert!(found == content);
        }
    }

    #[test]
    fn no_bit_of_a_cursor_can_be_changed(
        (key, id, query) in (any::<[u8; 32]>(), any::<u128>(), any::<Option<[u8; 32]>>()),
        (record, offset, file, bytes, records) in any::<(u64, u64, u16, u32, u32)>(),
        tenant in ".{0,80}",
        milliseconds in 0..10_000_000_000_000_u64,
    ) {
        let key = CursorKey::new(key);
        let cursor = Cursor {
            offload: Ulid::from_parts(id >> 80, id),
            file,
            position: Position { record, offset },
            size: PageSize { bytes, records },
            expires: UNIX_EPOCH + Duration::from_millis(milliseconds),
            query: query.map(Digest),
        };
        let text = key.sign(&tenant, &cursor);
        prop_assert_eq!(text.len(), if query.is_some() { 152 } else { 110 });
        prop_assert_eq!(key.open(&tenant, &text, UNIX_EPOCH), if milliseconds > 0 { Ok(cursor.clone()) } else { Err(CursorError::Expired) });
        prop_assert_eq!(key.open(&tenant, &text, cursor.expires), Err(CursorError::Expired));
        prop_assert_eq!(key.open(&format!("{tenant}x"), &text, UNIX_EPOCH), Err(CursorError::Tenant));
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = String::from_utf8_lossy(&changed).into_owned();
            let error = key.open(&tenant, &changed, UNIX_EPOCH).unwrap_err();
            prop_assert!(matches!(error, CursorError::Malformed | CursorError::Signature), "bit {}: {:?}", bit, error);
        }
        for length in 0..text.len() {
            prop_assert!(key.open(&tenant, &text[..length], UNIX_EPOCH).is_err());
        }
    }

    #[test]
    fn no_text_that_was_not_signed_is_a_cursor(
        (key, bytes) in any::<([u8; 32], Vec<u8>)>(),
        payload in proptest::collection::vec(any::<u8>(), 82..=82),
        text in ".*",
    ) {
        let key = CursorKey::new(key);
        for text in [text, URL_SAFE_NO_PAD.encode(bytes), URL_SAFE_NO_PAD.encode(payload)] {
            let error = key.open("team", &text, UNIX_EPOCH).unwrap_err();
            prop_assert!(matches!(error, CursorError::Malformed | CursorError::Signature), "{text}: {error:?}");
        }
    }
}

// A cursor of a list is valid for its tenant and list alone, and none is one of a section.
#[test]
fn a_cursor_of_a_list_is_of_that_list() {
    let key = CursorKey::new([7; 32]);
    let cursor = ListCursor { item: 40, list: Digest::of(b"[1,2]") };
    let text = key.sign_list("team", "tools/list", &cursor);
    assert_eq!(key.open_list("team", "tools/list", &text), Ok(cursor));
    // Names do not run into each other.
    for (tenant, list) in [("team", "prompts/list"), ("other", "tools/list"), ("teamt", "ools/list"), ("team", "")] {
        assert_eq!(key.open_list(tenant, list, &text), Err(CursorError::Signature), "{tenant} {list}");
    }
    assert_eq!(CursorKey::new([8; 32]).open_list("team", "tools/list", &text), Err(CursorError::Signature));
    assert!(matches!(key.open("team", &text, UNIX_EPOCH), Err(CursorError::Signature)));
    let mut changed = URL_SAFE_NO_PAD.decode(&text).unwrap();
    for bit in 0..changed.len() * 8 {
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(key.open_list("team", "tools/list", &URL_SAFE_NO_PAD.encode(&changed)).is_err(), "bit {bit}");
        changed[bit / 8] ^= 1 << (bit % 8);
    }
    for text in ["", "x", "é", &text[..text.len() - 4]] {
        assert!(key.open_list("team", "tools/list", text).is_err(), "{text}");
    }
}

// An error that says why, and never the first page again.
#[test]
fn a_cursor_that_does_not_fit_is_refused_with_the_reason() {
    let (_directory, store) = open();
    let content = rows(1000);
    let (offload, other) = (publish(&store, FileKind::Records, &content), publish(&store, FileKind::Records, &content));
    let key = CursorKey::new([7; 32]);
    let pages = Pages::with_key(store.clone(), key.clone());
    let next = pages.page(&fifty(&offload)).unwrap().next.unwrap();
    let good = from_cursor(&offload, &next);
    assert_eq!(pages.page(&good).unwrap().first, 50);

    let refused = |request: PageRequest, expected: CursorError, reason: &str| {
        let error = cursor_error(pages.page(&request));
        assert_eq!(error, expected);
        assert!(error.to_string().contains(reason), "{error}");
    };
    let with = |text: &str| from_cursor(&offload, text);
    refused(PageRequest { tenant: "other".to_owned(), ..good.clone() }, CursorError::Tenant, "another tenant");
    refused(from_cursor(&other, &next), CursorError::Offload, "another offload");
    refused(PageRequest { bytes: Some(300), ..good.clone() }, CursorError::PageSize, "another size");
    refused(PageRequest { records: Some(51), ..good.clone() }, CursorError::PageSize, "another size");
    refused(with(""), CursorError::Malformed, "truncated");
    refused(with("50"), CursorError::Malformed, "truncated");
    refused(with(&next[1..]), CursorError::Malformed, "truncated");
    refused(with(&format!("{next}AAAA")), CursorError::Signature, "changed");
    refused(with(&format!("{next}=")), CursorError::Malformed, "malformed");
    let foreign = Pages::with_key(store.clone(), CursorKey::new([8; 32]));
    let foreign = foreign.page(&fifty(&offload)).unwrap().next.unwrap();
    refused(with(&foreign), CursorError::Signature, "another key");
    // The same numbers as the cursor has are no other size.
    let same = PageRequest { bytes: Some(PAGE_BYTES_DEFAULT), records: Some(50), ..good };
    assert_eq!(pages.page(&same).unwrap().first, 50);

    let cursor = key.open("team", &next, SystemTime::now()).unwrap();
    assert_eq!(cursor.position, Position { record: 50, offset: 0 });
    let query = Cursor { query: Some(Digest::of(b"select")), ..cursor.clone() };
    refused(with(&key.sign("team", &query)), CursorError::Query, "another query");
    let section = Cursor { file: 1, ..cursor.clone() };
    refused(with(&key.sign("team", &section)), CursorError::Section, "another section");
    let past = Cursor { expires: SystemTime::now(), ..cursor };
    refused(with(&key.sign("team", &past)), CursorError::Expired, "expired");
}

#[test]
fn a_cursor_expires_with_its_offload() {
    let (directory, store) = open();
    let soon = SystemTime::now() - Duration::from_millis(3_599_000);
    let id = Ulid::from_parts(soon.duration_since(UNIX_EPOCH).unwrap().as_millis(), 1);
    let offload = publish_as(&store, id, FileKind::Records, &rows(100));
    let pages = Pages::new(store).unwrap();
    let next = from_cursor(&offload, &pages.page(&fifty(&offload)).unwrap().next.unwrap());
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(cursor_error(pages.page(&next)), CursorError::Expired);
    // Even where the store would keep it longer.
    let longer =
        StoreConfig { time_to_live: Duration::from_secs(9999), ..StoreConfig::new(directory.path().join("root")) };
    let pages = Pages::new(Store::open(longer).unwrap()).unwrap();
    assert_eq!(cursor_error(pages.page(&next)), CursorError::Expired);
    assert_eq!(records(&pages.page(&request(&offload)).unwrap()).len(), 100);
}

// As many records as fit, unless fewer are asked for; never more than 10,000.
#[test]
fn pages_adapt_to_the_weight_of_the_records() {
    let (_directory, store) = open();
    let pages = Pages::new(store.clone()).unwrap();
    let of_size =
        |bytes: usize| publish(&store, FileKind::Records, format!("{}\n", "x".repeat(bytes)).repeat(12_000).as_bytes());
    let first = |request: PageRequest| records(&pages.page(&request).unwrap()).len();
    let (light, middle, heavy) = (of_size(10), of_size(1000), of_size(4000));
    assert_eq!((first(request(&light)), first(request(&middle)), first(request(&heavy))), (2_000, 20, 5));
    let asked = |offload, bytes, records| first(PageRequest { bytes, records, ..request(offload) });
    assert_eq!(asked(&light, None, Some(200)), 200);
    assert_eq!(asked(&light, Some(u32::MAX), Some(u32::MAX)), PAGE_RECORDS_MAX as usize);
    assert_eq!(first(request(&of_size(0))), PAGE_RECORDS_MAX as usize, "empty lines too are counted");
    assert_eq!(asked(&light, None, Some(0)), 1);
    assert_eq!(asked(&light, Some(0), None), PAGE_BYTES_MIN as usize / 10);
    assert_eq!(asked(&middle, Some(3000), None), 3, "line feeds do not count");
    assert_eq!(asked(&heavy, Some(u32::MAX), Some(1000)), PAGE_BYTES_MAX as usize / 4000);
}

#[test]
fn the_ends_of_a_section_are_plain() {
    let (_directory, store) = open();
    let pages = Pages::new(store.clone()).unwrap();
    let empty = publish(&store, FileKind::Records, b"");
    let page = pages.page(&request(&empty)).unwrap();
    assert_eq!((records(&page).len(), page.first, page.total, page.next), (0, 0, 0, None));
    for kind in [FileKind::Value, FileKind::Bytes] {
        let page = pages.page(&request(&publish(&store, kind, b""))).unwrap();
        assert_eq!((part(&page).record_bytes, part(&page).data.as_str(), &page.next), (0, "", &None));
    }
    // A single page, and pages that end where the section does.
    let hundred = publish(&store, FileKind::Records, &rows(100));
    let page = pages.page(&PageRequest { records: Some(100), ..request(&hundred) }).unwrap();
    assert_eq!((records(&page).len(), page.total, page.next), (100, 100, None));
    let firsts: Vec<u64> = walk(&pages, fifty(&hundred)).iter().map(|page| page.first).collect();
    assert_eq!(firsts, [0, 50]);
    // From the end, or the beginning when there are not as many.
    let before_end = |offload: &Offload, count: i64| {
        pages.page(&PageRequest { start: Start::of_number(-count), ..request(offload) })
    };
    for (offload, count, first) in [(&hundred, 1, 99), (&hundred, 100, 0), (&hundred, i64::MAX, 0), (&empty, 5, 0)] {
        let page = before_end(offload, count).unwrap();
        assert_eq!((page.first, page.first + records(&page).len() as u64), (first, page.total));
    }
    let last = pages.page(&from_record(&hundred, 99)).unwrap();
    assert_eq!((records(&last), &last.next), (&[r#"{"id":99,"name":"row 99"}"#.to_owned()][..], &None));

    for (offload, record) in [(&hundred, 100), (&hundred, u64::MAX), (&empty, 1)] {
        let error = pages.page(&from_record(offload, record)).unwrap_err();
        assert!(matches!(error, PageError::NoRecord { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("no record {record}")), "{error}");
    }
    let error = pages.page(&PageRequest { section: "\u{1b}x".to_owned(), ..request(&hundred) }).unwrap_err();
    assert_eq!(error.to_string(), r#"there is no section "\u{1b}x": the offload has items"#);
    let error = pages.page(&PageRequest { tenant: "other".to_owned(), ..request(&hundred) }).unwrap_err();
    assert!(matches!(error, PageError::Store(StoreError::NotFound { .. })), "{error:?}");
    // By the name of the file too.
    let by_name = pages.page(&PageRequest { section: "a.jsonl".to_owned(), ..request(&hundred) }).unwrap();
    assert_eq!(by_name.total, 100);
    let binary = publish(&store, FileKind::Text, b"fine\n\xff\n");
    assert!(matches!(pages.page(&request(&binary)), Err(PageError::NotText { record: 0 })));
}

// One record larger than the page.
#[test]
fn a_large_record_comes_in_parts() {
    let (_directory, store) = open();
    let pages = Pages::new(store.clone()).unwrap();
    let large = "語".repeat(100_000);
    let content = format!("[1]\n{large}\n[3]\n");
    let offload = publish(&store, FileKind::Records, content.as_bytes());
    let all = walk(&pages, request(&offload));
    assert_eq!((records(&all[0]), all[0].first), (&["[1]".to_owned()][..], 0));
    assert_eq!((records(&all[17]), all[17].first, all.len()), (&["[3]".to_owned()][..], 2, 18));
    let parts: Vec<&PagePart> = all[1..17].iter().map(part).collect();
    assert_eq!(parts[0].offset, 0);
    assert!(parts.windows(2).all(|two| two[0].offset + two[0].bytes == two[1].offset));
    assert!(parts.iter().all(|part| part.record_bytes == 300_000 && part.bytes <= 20_000));
    // 20,000 is no multiple of three: a page ends before the character that it would cut.
    assert_eq!(parts[0].bytes, 19_998);
    assert_eq!(parts.iter().map(|part| part.data.as_str()).collect::<String>(), large);
}

// What is called anew is another offload.
#[test]
fn insertions_upstream_change_nothing() {
    let (_directory, store) = open();
    let pages = Pages::new(store.clone()).unwrap();
    let before = publish(&store, FileKind::Records, &rows(120));
    let next = pages.page(&fifty(&before)).unwrap().next.unwrap();
    publish(&store, FileKind::Records, &[b"{\"id\":\"new\"}\n".repeat(30), rows(120)].concat());
    let page = pages.page(&from_cursor(&before, &next)).unwrap();
    assert_eq!((page.first, page.total, records(&page)[0].as_str()), (50, 120, r#"{"id":50,"name":"row 50"}"#));
    // A cursor is good for more than one use.
    assert_eq!(pages.page(&from_cursor(&before, &next)).unwrap(), page);
}

#[test]
fn nothing_of_a_changed_file_is_given_out() {
    let (_directory, store) = open();
    let content = rows(10_000);
    let offload = publish(&store, FileKind::Records, &content);
    let pages = Pages::new(store).unwrap();
    let next = pages.page(&request(&offload)).unwrap().next.unwrap();
    let mut changed = [HEADER.as_bytes(), &content].concat();
    *changed.last_mut().unwrap() = b' ';
    fs::write(offload.path().join("a.jsonl"), changed).unwrap();
    for request in [request(&offload), from_record(&offload, 5000), from_cursor(&offload, &next)] {
        let error = pages.page(&request).unwrap_err();
        assert!(matches!(error, PageError::Store(StoreError::Changed { .. })), "{error:?}");
        assert!(error.to_string().contains(&offload.record().files[0].sha256.unwrap().to_string()), "{error}");
    }
}

#[test]
fn processes_on_one_root_share_the_key() {
    let (directory, store) = open();
    let root = directory.path().join("root");
    let keys: HashSet<[u8; 32]> = thread::scope(|scope| {
        let make = || {
            Store::open(StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(&root) }).unwrap().cursor_key().unwrap()
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(keys.len(), 1);
    let path = root.join(".cursor-key");
    #[cfg(unix)]
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let names = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with(".cursor-key")).count(), 1);
    store.sweep(SystemTime::now() + Duration::from_secs(9999)).unwrap();
    assert_eq!(HashSet::from([store.cursor_key().unwrap()]), keys);

    #[cfg(unix)]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Pages::new(store.clone()).unwrap_err().to_string().contains("others have access"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(&path, "short").unwrap();
    assert!(Pages::new(store).unwrap_err().to_string().contains("32 bytes"));
}

#[test]
fn a_stream_begins_where_the_request_says_and_ends_after_an_error() {
    let (directory, store) = open();
    let offload = publish(&store, FileKind::Records, &rows(1000));
    let pages = Pages::new(store).unwrap();
    let last = streamed(&pages, PageRequest { start: Start::BeforeEnd(2), ..request(&offload) });
    assert_eq!(last, [r#"{"id":998,"name":"row 998"}"#, r#"{"id":999,"name":"row 999"}"#]);
    let items: Vec<_> = run(pages.records(from_record(&offload, 1000)).collect());
    assert!(matches!(items.as_slice(), [Err(PageError::NoRecord { record: 1000, total: 1000 })]), "{items:?}");

    // Pages are read as they are needed: what is removed meanwhile ends the stream.
    let mut stream = Box::pin(pages.records(fifty(&offload)));
    let found = run(async {
        let first: Vec<_> = stream.by_ref().take(50).collect().await;
        fs::remove_dir_all(directory.path().join("root/team")).unwrap();
        (first, stream.collect::<Vec<_>>().await)
    });
    assert!(found.0.iter().all(Result::is_ok));
    assert!(matches!(found.1.as_slice(), [Err(PageError::Store(_))]), "{:?}", found.1);
}

// A page of numbers, with the number of the next page as its cursor.
fn numbers(page: u32, next: Option<&str>) -> ListPage<u32> {
    ListPage { items: vec![page * 2, page * 2 + 1], next: next.map(str::to_owned) }
}

#[test]
fn a_list_that_repeats_a_cursor_ends() {
    let mut fetched = Vec::new();
    let items: Vec<_> = run(list_items(async |cursor: Option<String>| {
        fetched.push(cursor.clone());
        match cursor.as_deref() {
            None => Ok::<_, &str>(numbers(0, Some("1"))),
            Some("1") => Ok(numbers(1, Some("2"))),
            Some(_) => Ok(numbers(2, Some("1"))),
        }
    })
    .collect());
    let (error, items) = items.split_last().unwrap();
    assert_eq!(items.iter().map(|item| *item.as_ref().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert!(matches!(error, Err(ListError::Repeated(cursor)) if cursor == "1"), "{error:?}");
    assert_eq!(fetched, [None, Some("1".to_owned()), Some("2".to_owned())]);
}

#[test]
fn a_list_is_fetched_as_it_is_read_and_ends_after_an_error() {
    let mut fetched = 0;
    let first: Vec<_> = run(list_items(async |_| {
        fetched += 1;
        Ok::<_, &str>(numbers(fetched, Some(&fetched.to_string())))
    })
    .take(4)
    .collect());
    assert_eq!((first.len(), fetched), (4, 2));
    let failed: Vec<_> = run(list_items(async |cursor| match cursor {
        None => Ok(numbers(0, Some(""))),
        Some(_) => Err("gone"),
    })
    .collect());
    assert!(matches!(failed.as_slice(), [Ok(0), Ok(1), Err(ListError::Fetch("gone"))]), "{failed:?}");
}
