//! The verdict on a result, to the byte at each of its limits.

use lro_jsonl::Measure;
use lro_offload::bindings::lro::filter::types::{Action, DecisionMode, ImageMode, Settings, Size};
use lro_offload::{Call, PolicyError, Verdict, inspect};

use crate::support::{Parts, bytes, call, characters, settings, tokens};

fn verdict(call: &Call, parts: &Parts) -> Verdict {
    inspect(call, parts).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Whether a result is larger than this threshold. It would be rejected, so that nothing but its size counts.
fn is_large(parts: &Parts, threshold: Size) -> bool {
    is_large_with(Settings { threshold, ..settings() }, parts)
}

fn is_large_with(settings: Settings, parts: &Parts) -> bool {
    match verdict(&call(Settings { action: Action::Reject, ..settings }), parts) {
        Verdict::Pass => false,
        Verdict::Reject(_) => true,
        other => panic!("{other:?}"),
    }
}

/// Asserts that a result has exactly this size: at this threshold it passes, at one less it does not.
#[track_caller]
fn assert_size(parts: &Parts, size: Size) {
    assert!(!is_large(parts, size), "larger than {size:?}");
    assert!(is_large(parts, Size { amount: size.amount - 1, ..size }), "smaller than {size:?}");
}

#[test]
fn a_result_of_exactly_the_threshold_passes_in_each_unit() {
    let text = "A naïve café in 東京. ".repeat(700);
    let mut size = Measure::text();
    size.push(&text);
    assert!(size.bytes() > 8 * 1024 && size.tokens() < size.characters() && size.characters() < size.bytes());
    let parts = Parts::default().text(&text);
    assert_size(&parts, bytes(size.bytes()));
    assert_size(&parts, characters(size.characters()));
    assert_size(&parts, tokens(size.tokens()));
    // All parts count.
    let parts = Parts::default().text(&text).blocks(2, r#"{"type":"resource_link"}"#).texts(2, "abc");
    let more = 2 * 24 + 2 * 3;
    assert_size(&parts, bytes(size.bytes() + more));
    assert_size(&parts, characters(size.characters() + more));
    let small = |text: &str, json: bool| {
        let mut size = if json { Measure::json() } else { Measure::text() };
        size.push(text);
        size.tokens()
    };
    assert_size(
        &parts,
        tokens(size.tokens() + 2 * small(r#"{"type":"resource_link"}"#, true) + 2 * small("abc", false)),
    );
}

#[test]
fn white_space_between_the_tokens_of_json_does_not_count() {
    let json = format!("  {{\"a\": [1,{}2],\n\t\"b c\": \"d  e\"}}\n", " ".repeat(9_000));
    let compact = r#"{"a":[1,2],"b c":"d  e"}"#;
    for parts in [Parts::default().text(&json), Parts::default().structured(&json), Parts::default().blocks(1, &json)] {
        assert_size(&parts, bytes(compact.len() as u64));
        assert_size(&parts, characters(compact.len() as u64));
    }
    assert_size(&Parts::default().text(format!("\u{feff}{json}")), characters(compact.len() as u64 + 1));
    // A text that only begins like JSON, and one that ends too early, are texts.
    for text in ["[1,  2] and so on", "{\"a\":  ", "  [x,  y]", "a: [1,  2]"] {
        assert_size(&Parts::default().text(text), characters(text.len() as u64));
    }
    // Not so a long one that goes on like JSON as far as it is looked at.
    let long = format!("[{}", "1, ".repeat(2_000));
    assert_size(&Parts::default().text(&long), characters(2 * 2_000 + 1));
    // A number alone is a text.
    assert_size(&Parts::default().text("  1  "), characters(5));
}

#[test]
fn a_part_that_still_arrives_is_read_before_it_passes() {
    let parts = Parts::default().text("x".repeat(2_000)).so_far(10);
    assert_size(&parts, characters(2_000));
    let parts = Parts::default().text("x").so_far(1).text("x".repeat(2_000));
    assert_size(&parts, characters(2_001));
}

#[test]
fn bytes_count_as_the_base64_that_they_are_in_a_reply() {
    for (length, base64) in [(1, 4), (3, 4), (4, 8), (750, 1_000), (751, 1_004), (9_000, 12_000)] {
        let parts = Parts::default().binary("application/zip", vec![7; length]);
        assert_size(&parts, bytes(base64));
        assert_size(&parts, characters(base64));
        assert_size(&parts, tokens((base64 * 7).div_ceil(10)));
        // Images, too, where they are bytes like any others.
        let settings = |amount| Settings { threshold: bytes(amount), images: ImageMode::Offload, ..settings() };
        let image = Parts::default().binary("image/png", vec![7; length]);
        assert!(!is_large_with(settings(base64), &image));
        assert!(is_large_with(settings(base64 - 1), &image));
    }
}

/// The beginnings of images of this size, as each format has it.
fn images(width: u16, height: u16) -> Vec<(&'static str, Vec<u8>)> {
    let (w, h) = (width.to_be_bytes(), height.to_be_bytes());
    let (w24, h24) = (u32::from(width) - 1, u32::from(height) - 1);
    let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0".as_slice(), &w, b"\0\0", &h].concat();
    let gif = [b"GIF89a".as_slice(), &width.to_le_bytes(), &height.to_le_bytes()].concat();
    // Segments before the frame are skipped by their length, and fill bytes before a marker too.
    let jpeg = [
        b"\xFF\xD8\xFF\xE0\0\x07JFIF\0\xFF\xC4\0\x09\0\0\0\0\0\0\0\xFF\xFF\xFF\xC2\0\x11\x08".as_slice(),
        &h,
        &w,
        b"\x03",
    ]
    .concat();
    let riff = |chunk: &[u8], rest: &[u8]| [b"RIFF\x40\0\0\0WEBP".as_slice(), chunk, b"\x40\0\0\0", rest].concat();
    let lossy = [b"\x30\x01\0\x9d\x01\x2a".as_slice(), &width.to_le_bytes(), &height.to_le_bytes()].concat();
    let lossless = [b"\x2f".as_slice(), &(w24 | h24 << 14).to_le_bytes()].concat();
    let extended = [b"\x10\0\0\0".as_slice(), &w24.to_le_bytes()[..3], &h24.to_le_bytes()[..3]].concat();
    vec![
        ("image/png", png),
        ("image/gif", gif),
        ("image/jpeg", jpeg),
        ("image/webp", riff(b"VP8 ", &lossy)),
        ("image/webp", riff(b"VP8L", &lossless)),
        ("image/webp", riff(b"VP8X", &extended)),
    ]
}

#[test]
fn an_image_counts_as_the_tokens_that_it_costs_a_model() {
    // A token for each 750 pixels, at least one, at most 1,600.
    for ((width, height), cost) in
        [((1_000, 600), 800), ((601, 1_000), 802), ((20, 10), 1), ((1_000, 1_200), 1_600), ((8_000, 16_000), 1_600)]
    {
        for (media_type, image) in images(width, height) {
            let parts = Parts::default().binary(media_type, &image).text("four");
            assert_size(&parts, tokens(cost + lro_jsonl::tokens("four")));
            assert_size(&parts, characters(4 * cost + 4));
            // However many bytes it has.
            let parts = Parts::default().binary(&media_type.to_uppercase(), [image, vec![0; 9_000]].concat());
            assert_size(&parts, characters(4 * cost));
        }
    }
}

#[test]
fn a_sound_and_an_image_of_unknown_size_cost_the_most() {
    let (_, png) = images(100, 100).swap_remove(0);
    let (_, jpeg) = images(100, 100).swap_remove(2);
    // As many bytes as it takes that sizes alone do not decide.
    for (media_type, beginning) in [
        ("audio/wav", &png[..]),
        ("Audio/wav", &png[..]),
        ("image/png", &png[..20]),
        ("image/x-other", b"other"),
        ("image/jpeg", &jpeg[..18]),
        ("image/jpeg", b"\xFF\xD8\xFF\xE0"),
        ("image/webp", b"RIFF\x40\0\0\0WEBPJUNK\x40\0\0\0"),
        ("image/webp", b"RIFF\x40\0\0\0WEBP"),
    ] {
        assert_size(&Parts::default().binary(media_type, beginning), characters(6_400));
        assert_size(&Parts::default().binary(media_type, beginning), tokens(1_600));
    }
    // Neither an image nor a sound.
    let settings = Settings { threshold: bytes(1_000), ..settings() };
    for media_type in ["imag", "image", "video/mp4", "text/image/", "bildé/png"] {
        let parts = Parts::default().binary(media_type, vec![0; 751]);
        assert!(is_large_with(settings.clone(), &parts), "{media_type}");
    }
}

#[test]
fn more_images_than_may_stay_are_acted_upon_whatever_the_size() {
    let image = [0; 30];
    let parts = |count: usize| (0..count).fold(Parts::default(), |parts, _| parts.binary("image/png", image));
    let settings = Settings { threshold: bytes(1 << 30), images_max: 3, images_bytes: 90, ..settings() };
    assert!(!is_large_with(settings.clone(), &parts(3)));
    assert!(is_large_with(settings.clone(), &parts(4)));
    assert!(is_large_with(Settings { images_bytes: 89, ..settings.clone() }, &parts(3)));
    assert!(is_large_with(settings.clone(), &parts(3).so_far(1)));
    assert!(!is_large_with(Settings { images: ImageMode::Offload, ..settings.clone() }, &parts(4)));
    assert!(!is_large_with(settings, &parts(3).binary("application/zip", [0; 91]).text("text")));
}

#[test]
fn images_leave_room_for_the_descriptor_in_what_a_client_reads() {
    // 1,000 bytes are 1,336 of base64.
    let parts = Parts::default().binary("image/png", [0; 1_000]);
    let stays = |limit: Size, descriptor_limit: u32| {
        let settings = Settings { threshold: bytes(1 << 30), descriptor_limit, action: Action::Reject, ..settings() };
        let mut call = call(settings);
        call.reader.limit = Some(limit);
        matches!(verdict(&call, &parts), Verdict::Pass)
    };
    for unit in [bytes, characters] {
        assert!(stays(unit(1_336 + 2 * 100), 100));
        assert!(!stays(unit(1_335 + 2 * 100), 100));
        // At most half is for the descriptor.
        assert!(stays(unit(2 * 1_336), 8_000));
        assert!(!stays(unit(2 * 1_336 - 2), 8_000));
    }
    // 10 characters of base64 are 7 tokens: the fewest with which 1,536 characters fit.
    assert!(stays(tokens(1_076), 100));
    assert!(!stays(tokens(1_075), 100));
}

#[test]
fn the_mode_decides_before_the_size() {
    let (small, large) = (Parts::default().text("x"), Parts::default().text("x".repeat(1_001)));
    let with = |mode, parts: &Parts| verdict(&call(Settings { mode, ..settings() }), parts);
    assert!(matches!(with(DecisionMode::Never, &large), Verdict::Pass));
    assert!(matches!(with(DecisionMode::BySize, &small), Verdict::Pass));
    assert!(matches!(with(DecisionMode::BySize, &large), Verdict::Offload(_)));
    assert!(matches!(with(DecisionMode::Always, &small), Verdict::Offload(_)));
    // There is nothing to write.
    assert!(matches!(with(DecisionMode::Always, &Parts::default()), Verdict::Pass));
    let image = Parts::default().binary("image/png", [0; 30]);
    assert!(matches!(with(DecisionMode::Always, &image), Verdict::Pass));
}

#[test]
fn an_error_of_a_tool_is_shortened_and_never_written() {
    let settings = Settings {
        threshold: characters(10),
        truncate_limit: characters(20),
        truncate_suffix: "[cut]".to_owned(),
        ..settings()
    };
    for action in [Action::Offload, Action::Reject, Action::Truncate] {
        for (mode, length, is_cut) in [
            (DecisionMode::BySize, 10, false),
            (DecisionMode::BySize, 20, false),
            (DecisionMode::BySize, 21, true),
            (DecisionMode::Always, 20, false),
            (DecisionMode::Always, 21, true),
            (DecisionMode::Never, 21, false),
        ] {
            let call = Call { is_error: true, ..call(Settings { mode, action, ..settings.clone() }) };
            match verdict(&call, &Parts::default().text("x".repeat(length))) {
                Verdict::Pass => assert!(!is_cut, "{mode:?}, {length}"),
                Verdict::Truncate(truncation) => {
                    assert!(is_cut, "{mode:?}, {length}");
                    assert_eq!((truncation.limit.amount, &*truncation.suffix), (20, "[cut]"));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_large_result_is_cut_or_refused_with_advice() {
    let large = Parts::default().text("x".repeat(1_001));
    let with = |settings: Settings| verdict(&call(settings), &large);
    let cut = with(Settings { action: Action::Truncate, truncate_limit: bytes(300), ..settings() });
    assert!(matches!(&cut, Verdict::Truncate(cut) if cut.limit.amount == 300 && cut.suffix.is_empty()), "{cut:?}");
    let advice = |settings: Settings| match with(Settings { action: Action::Reject, ..settings }) {
        Verdict::Reject(advice) => advice,
        other => panic!("{other:?}"),
    };
    for (threshold, named) in
        [(bytes(1_000), "1000 bytes"), (characters(9), "9 characters"), (tokens(2), "2 estimated tokens")]
    {
        let begins = format!("The result of `fetch` is larger than {named}. Ask for less");
        let advice = advice(Settings { threshold, ..settings() });
        assert!(advice.starts_with(&begins), "{advice}");
    }
    assert_eq!(advice(Settings { advice: "Use a filter.".to_owned(), ..settings() }), "Use a filter.");
}

#[test]
fn settings_without_a_size_are_refused_by_name() {
    let small = Parts::default().text("x");
    for mode in [DecisionMode::Never, DecisionMode::BySize, DecisionMode::Always] {
        for (settings, name) in [
            (Settings { threshold: bytes(0), ..settings() }, "threshold"),
            (Settings { truncate_limit: bytes(0), ..settings() }, "truncate-limit"),
        ] {
            match inspect(&call(Settings { mode, ..settings }), &small) {
                Err(PolicyError::Invalid(message)) => {
                    assert_eq!(message, format!("{name}: must be at least 1"));
                }
                other => panic!("{other:?}"),
            }
        }
        let settings = Settings { mode, threshold: bytes(1), truncate_limit: bytes(1), ..settings() };
        assert!(inspect(&call(settings), &small).is_ok());
    }
}
