//! Misbehaving policies in one component: `settings.custom` names the behaviour.
//!
//! A behaviour whose name begins with `inspect-` runs while inspecting, any other while writing. A number after a colon
//! is its amount: `big-descriptor:9000000`. An unknown name is an error, so that a test cannot pass by a typing
//! mistake.
//!
//! | module | what it does |
//! |---|---|
//! | `exhaust` | uses up time, memory, stack, or ends in a trap |
//! | `escape` | tries to reach what lies outside its directory |
//! | `hold` | opens too many handles, or keeps them |
//! | `output` | writes too much, or reports wrong files |
//! | `read_only` | answers queries and tries to change its read-only files |
//! | `sign` | behaves well, and signs its answers |
//! | `snoop` | looks for what others left behind |

mod escape;
mod exhaust;
mod hold;
mod output;
mod read_only;
mod sign;
mod snoop;

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "lro-policy", generate_all });
}

use bindings::exports::lro::filter::lro_filter::{Descriptor, Guest, Plan, PolicyError, Verdict};
use bindings::lro::filter::types::{
    Call, Condition, File, FileKind, Origin, PlannedPart, Size, SizeUnit, ToolResult, Truncation,
};
use bindings::wasi::filesystem::preopens::get_directories;

/// Control characters that a terminal or a log would interpret.
const RUDE: &str = "\x1b[2J\x1b]0;owned\x07\r\n2026-11-20 ERROR forged\u{9b}31m";

struct Hostile;

#[expect(unsafe_code, reason = "generated")]
mod exports {
    use super::{Hostile, bindings};

    bindings::export!(Hostile with_types_in bindings);
}

impl Guest for Hostile {
    fn inspect_result(call: Call, payload: &ToolResult) -> Result<Verdict, PolicyError> {
        let plan = || Plan { parts: payload.parts().iter().map(|_| PlannedPart::Text).collect() };
        match behaviour(&call) {
            ("inspect-loop", _) => exhaust::endlessly(),
            ("inspect-loop-at", amount) => {
                let (calls, report) = exhaust::remember();
                if calls == amount as u64 { exhaust::endlessly() } else { Ok(Verdict::Reject(report.content)) }
            }
            ("inspect-read", _) => exhaust::read_endlessly(payload),
            ("inspect-read-bytewise", _) => exhaust::read_bytewise(payload),
            ("inspect-memory", _) => exhaust::memory(),
            ("inspect-stack", _) => exhaust::stack(),
            ("inspect-trap", _) => exhaust::trap(),
            ("inspect-remember", _) => Ok(Verdict::Reject(exhaust::remember().1.content)),
            ("inspect-cut", amount) => {
                let limit = Size { amount: amount as u64, unit: SizeUnit::Characters };
                Ok(Verdict::Truncate(Truncation { limit, suffix: "x".repeat(100_000) }))
            }
            ("inspect-keep-handle", _) => {
                hold::keep(payload);
                Ok(Verdict::Offload(plan()))
            }
            ("inspect-input-schema", _) => {
                Ok(Verdict::Reject(call.input_schema.as_deref().unwrap_or("none").to_owned()))
            }
            ("inspect-advice", amount) => Ok(Verdict::Reject("x".repeat(amount))),
            ("sign", _) => Ok(sign::inspect()),
            ("inspect-directories", _) => Ok(Verdict::Reject(get_directories().len().to_string())),
            ("inspect-plan", amount) => {
                Ok(Verdict::Offload(Plan { parts: (0..amount).map(|_| PlannedPart::Text).collect() }))
            }
            ("inspect-join", target) => {
                Ok(Verdict::Offload(Plan { parts: vec![PlannedPart::Keep, PlannedPart::Joined(target as u32)] }))
            }
            _ => Ok(Verdict::Offload(plan())),
        }
    }

    fn write_sections(call: Call, payload: &ToolResult, plan: Plan) -> Result<Descriptor, PolicyError> {
        match behaviour(&call) {
            ("loop", _) => exhaust::endlessly(),
            ("read", _) => exhaust::read_endlessly(payload),
            ("read-bytewise", _) => exhaust::read_bytewise(payload),
            ("read-past-the-end", _) => exhaust::read_past_the_end(payload),
            ("sync", _) => exhaust::sync_endlessly(),
            ("list", _) => exhaust::list_endlessly(),
            ("memory", _) => exhaust::memory(),
            ("stack", _) => exhaust::stack(),
            ("trap", _) => exhaust::trap(),
            ("remember", _) => Ok(exhaust::remember().1),
            ("write-outside", _) => escape::attempts(),
            ("big-descriptor", amount) => Ok(answer(format!("{{\"text\":\"{}\"}}", "x".repeat(amount)), Vec::new())),
            ("many-notes", amount) => {
                Ok(Descriptor { notes: vec!["x".repeat(1000); amount], ..answer("{}".to_owned(), Vec::new()) })
            }
            ("many-files", amount) => output::many_files(amount),
            ("many-directories", amount) => output::many_directories(amount),
            ("create-and-remove", amount) => output::create_and_remove(amount),
            ("rename-over", _) => output::rename_over(),
            ("sparse-files", amount) => output::sparse_files(amount),
            ("hold-files", amount) => hold::files(amount),
            ("hold-listings", amount) => hold::listings(amount),
            ("hold-directories", amount) => hold::directories(amount),
            ("open-and-close", amount) => hold::open_and_close(amount),
            ("inspect-keep-handle", _) => hold::kept(),
            ("forged-handle", amount) => hold::forged(amount),
            ("plant-secret", _) => snoop::plant(payload),
            ("snoop", _) => snoop::search(payload),
            ("many-bytes", amount) => output::many_bytes(amount),
            ("many-bytes-silently", amount) => output::many_bytes_silently(amount),
            ("overwrite", amount) => output::overwrite(amount),
            ("rewrite", amount) => output::rewrite(amount),
            ("rename-large", amount) => output::rename_large(amount),
            ("sparse", amount) => output::sparse(amount),
            ("exchange", _) => output::exchange(),
            ("truncate", _) => output::truncate(),
            ("rename-to-itself", _) => output::rename_to_itself(),
            ("split-header", _) => output::split_header(),
            ("spellings", _) => escape::spellings(),
            ("sign", _) => sign::write(&plan),
            ("swapped", amount) => escape::swapped(amount),
            ("names", _) => escape::names(),
            ("rude-notes", _) => {
                Ok(Descriptor { notes: vec![RUDE.to_owned(); 3], ..answer("{}".to_owned(), Vec::new()) })
            }
            ("rude-error", amount) => Err(PolicyError::Other(RUDE.repeat(amount))),
            ("rude-name", _) => Ok(answer("{}".to_owned(), vec![file(RUDE, 0)])),
            ("honest", _) => output::honest(),
            ("lie-size", _) => output::lie_about_size(),
            ("lie-absent", _) => Ok(answer("{}".to_owned(), vec![file("absent.txt", 1)])),
            ("lie-unlisted", _) => output::unlisted(),
            ("lie-twice", _) => output::listed_twice(),
            ("lie-name", _) => Ok(answer("{}".to_owned(), vec![file("../escaped.txt", 0)])),
            ("lie-manifest", _) => output::manifest(),
            ("lie-not-json", _) => Ok(answer("not JSON".to_owned(), Vec::new())),
            ("lie-not-object", _) => Ok(answer("[]".to_owned(), Vec::new())),
            ("lie-nan", _) => Ok(answer("{\"mean\":NaN}".to_owned(), Vec::new())),
            ("lie-infinity", _) => Ok(answer("{\"most\":1e999}".to_owned(), Vec::new())),
            ("lie-deep", amount) => {
                let content = format!("{{\"a\":{}{}}}", "[".repeat(amount), "]".repeat(amount));
                Ok(answer(content, Vec::new()))
            }
            ("lie-numbers", _) => output::greatest_numbers(),
            ("lie-cycle", _) => output::query(vec![Condition::All(vec![0])]),
            ("lie-ahead", _) => output::query(vec![Condition::Negation(1), Condition::Negation(0)]),
            ("lie-depth", amount) => output::query(output::nested(amount)),
            ("lie-derived", _) => output::derived(Origin::RecordsOfText, Some("absent.txt")),
            ("lie-derived-of-derived", _) => output::derived(Origin::Outline, Some("derived.txt")),
            ("lie-underived", _) => output::derived(Origin::Outline, None),
            ("lie-derived-content", _) => output::derived(Origin::Content, Some("honest.txt")),
            ("lie-schema", _) => output::bad_schema(),
            ("lie-count", amount) => output::records("items.jsonl", amount as u64),
            ("lie-count-unnamed", amount) => output::records("items.bin", amount as u64),
            (other, _) => Err(PolicyError::Invalid(format!("custom: no behaviour `{other}`"))),
        }
    }
}

/// A behaviour and its amount.
fn behaviour(call: &Call) -> (&str, usize) {
    let custom = call.settings.custom.as_deref().unwrap_or_default();
    let (name, amount) = custom.split_once(':').unwrap_or((custom, "0"));
    (name, amount.parse().unwrap_or(0))
}

fn answer(content: String, files: Vec<File>) -> Descriptor {
    Descriptor { content, files, offloaded_tokens: 0, notes: Vec::new() }
}

fn file(name: &str, bytes: u64) -> File {
    File {
        name: name.to_owned(),
        kind: FileKind::Text,
        section: name.to_owned(),
        parts: vec![0],
        origin: Origin::Content,
        form: None,
        derived_from: None,
        pointer: None,
        shape: None,
        media_type: "text/plain".to_owned(),
        records: 0,
        bytes,
        schema: None,
        queries: Vec::new(),
    }
}
