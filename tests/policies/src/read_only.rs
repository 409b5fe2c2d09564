//! Answers queries and tries to change its read-only files. The answer reports the outcome of every attempt.

#![expect(unsafe_code, reason = "the exports are generated")]

use bindings::exports::lro::filter::lro_query::{Answer, Budget, ExtractError, Guest, Question, Source};
use bindings::lro::filter::types::Query;
use bindings::wasi::filesystem::preopens::get_directories;
use bindings::wasi::filesystem::types::{DescriptorFlags, NewTimestamp, OpenFlags, PathFlags};

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "lro-extract", generate_all });
}

struct Reader;

bindings::export!(Reader with_types_in bindings);

impl Guest for Reader {
    fn extract(sources: Vec<Source>, _: Question, _: Budget) -> Result<Answer, ExtractError> {
        let directories = get_directories();
        let [(directory, _)] = directories.as_slice() else {
            return Err(ExtractError::Io(format!("{} directories", directories.len())));
        };
        let [source] = sources.as_slice() else {
            return Err(ExtractError::Io(format!("{} sources", sources.len())));
        };
        let (name, none) = (source.name.as_str(), PathFlags::empty());
        let mut lines = String::new();
        let mut note = |what: &str, outcome: Result<(), &str>| {
            lines.push_str(&format!("[\"{what}\",\"{}\"]\n", outcome.err().unwrap_or("ok")));
        };
        let (read, write) = (DescriptorFlags::READ, DescriptorFlags::WRITE);
        let opens = [
            ("write", OpenFlags::empty(), write),
            ("read and write", OpenFlags::empty(), read | write),
            ("truncate", OpenFlags::TRUNCATE, write),
            ("truncate to read", OpenFlags::TRUNCATE, read),
            ("truncate with nothing", OpenFlags::TRUNCATE, DescriptorFlags::empty()),
            ("create", OpenFlags::CREATE, write),
            ("create to read", OpenFlags::CREATE, read),
            ("create and truncate", OpenFlags::CREATE | OpenFlags::TRUNCATE, read),
        ];
        for (what, open_flags, flags) in opens {
            note(what, directory.open_at(none, name, open_flags, flags).map(drop).map_err(|code| code.name()));
            let created = directory.open_at(none, "new", open_flags | OpenFlags::CREATE, flags).map(drop);
            note(&format!("{what}, a new file"), created.map_err(|code| code.name()));
        }
        let mut named = |what: &str, outcome: Result<(), bindings::wasi::filesystem::types::ErrorCode>| {
            note(what, outcome.map_err(|code| code.name()));
        };
        named("rename", directory.rename_at(name, directory, "renamed"));
        named("remove", directory.unlink_file_at(name));
        named("hard link", directory.link_at(none, name, directory, "second"));
        named("symbolic link", directory.symlink_at(name, "second"));
        named("make directory", directory.create_directory_at("made"));
        named("set times", directory.set_times_at(none, name, NewTimestamp::NoChange, NewTimestamp::Now));
        if let Ok(opened) = directory.open_at(none, name, OpenFlags::empty(), read) {
            named("write through a reader", opened.write(b"x", 0).map(drop));
            named("shorten", opened.set_size(0));
            named("set times of an open file", opened.set_times(NewTimestamp::NoChange, NewTimestamp::Now));
            let text = opened.read(1 << 16, 0).is_ok_and(|(bytes, _)| !bytes.is_empty());
            if !text {
                return Err(ExtractError::Io("the file cannot even be read".to_owned()));
            }
        }
        let results = lines.lines().count() as u64;
        Ok(Answer {
            lines,
            results,
            total: results,
            matched: 0,
            examined: 0,
            next_bytes: None,
            failures: None,
            notes: Vec::new(),
        })
    }

    fn extract_part(_: Source, _: Query) -> Result<Vec<u8>, ExtractError> {
        Err(ExtractError::Invalid("this component answers as a whole".to_owned()))
    }

    fn merge_parts(_: Source, _: Query, _: Vec<Vec<u8>>, _: Budget) -> Result<Answer, ExtractError> {
        Err(ExtractError::Invalid("this component answers as a whole".to_owned()))
    }
}
