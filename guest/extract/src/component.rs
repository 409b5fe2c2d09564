//! The component: answers questions about a file in the preopened directory.

#![expect(unsafe_code, reason = "the exports are generated")]

use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use crate::{Answer, Budget, ExtractError, Guest, Question, Source, bindings};

struct Extract;

bindings::export!(Extract with_types_in bindings);

impl Guest for Extract {
    fn extract(source: Source, question: Question, budget: Budget) -> Result<Answer, ExtractError> {
        let Some((directory, _)) = get_directories().into_iter().next() else {
            return Err(ExtractError::Io("no directory is preopened".to_owned()));
        };
        let opened = directory.open_at(PathFlags::empty(), &source.name, OpenFlags::empty(), DescriptorFlags::READ);
        let file = opened.map_err(|code| ExtractError::Io(format!("{}: {}", source.name, code.message())))?;
        crate::extract(&source, &question, budget, &mut |offset, length| {
            let read = file.read(u64::from(length), offset);
            read.map(|(bytes, _)| bytes).map_err(|code| format!("{}: {}", source.name, code.message()))
        })
    }
}
