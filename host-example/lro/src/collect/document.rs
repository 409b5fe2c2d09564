//! The pages as one JSON document, which becomes an offload.

use std::io::{BufWriter, Write};

use anyhow::{Context, bail};
use lro_gateway::collect::{Count, Kept};
use lro_host::mcp::ToolPage;
use lro_host::store::{FileKind, Offload, Section};
use serde::Deserialize;
use serde_json::value::RawValue;
use tempfile::{NamedTempFile, TempPath};

/// JSON Pointer of the records of a page that is nothing but a list.
const BARE_LIST: &str = "/items";

/// Most records and bytes of an earlier offload that are copied at once.
const COPIED_RECORDS_MAX: usize = 10_000;
const COPIED_BYTES_MAX: usize = 4 << 20;

/// The document, in a file that is removed in the end.
pub(super) struct Document {
    file: BufWriter<NamedTempFile>,
    /// The offload whose records come first.
    earlier: Option<Offload>,
    is_empty: bool,
}

/// What an offload says of the pages that it was collected from.
#[derive(Deserialize)]
struct Descriptor<'a> {
    #[serde(borrow)]
    collected: Option<Said<'a>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    pages: u64,
    records: u64,
    #[serde(borrow)]
    next: Option<&'a RawValue>,
}

impl Document {
    pub(super) fn create() -> anyhow::Result<Self> {
        let file = BufWriter::new(NamedTempFile::new().context("cannot create a temporary file")?);
        Ok(Self { file, earlier: None, is_empty: true })
    }

    /// Goes on with the records of an offload that ended early. Also gives the arguments that continue, and how many there
    /// are.
    pub(super) fn after(offload: Offload) -> anyhow::Result<(Self, String, Count)> {
        let said = serde_json::from_str::<Descriptor<'_>>(offload.record().descriptor.get())?.collected;
        let Some(Said { pages, records, next: Some(next) }) = said else {
            bail!("the offload {} is whole, or cannot be gone on with: it names no next page", offload.id());
        };
        let (next, count) = (next.get().to_owned(), Count { pages, records });
        Ok((Self { earlier: Some(offload), ..Self::create()? }, next, count))
    }

    /// Appends the records of a page.
    pub(super) fn keep(&mut self, kept: &Kept<'_>) -> anyhow::Result<()> {
        let Kept { page, .. } = kept;
        if std::mem::take(&mut self.is_empty) {
            self.file.write_all(page.opening().as_bytes())?;
            if let Some(offload) = self.earlier.take() {
                copy(&offload, page, &mut self.file)?;
                self.file.write_all(b",")?;
            }
        } else {
            self.file.write_all(b",")?;
        }
        Ok(self.file.write_all(page.items().as_bytes())?)
    }

    /// Ends the document with what stands around the records in the last page, and what there is to say about all. Gives its
    /// path.
    pub(super) fn end(mut self, last: &ToolPage, summary: &str) -> anyhow::Result<TempPath> {
        self.file.write_all(last.closing("collected", summary).as_bytes())?;
        Ok(self.file.into_inner()?.into_temp_path())
    }
}

/// Copies the records of an offload that were at the place of those of a page.
fn copy(offload: &Offload, page: &ToolPage, file: &mut impl Write) -> anyhow::Result<()> {
    let pointer = if page.pointer.is_empty() { BARE_LIST } else { &page.pointer };
    let mut files = offload.record().files.iter().filter(|file| file.kind == FileKind::Records);
    let Some(section) = files.find(|file| file.pointer.as_deref() == Some(pointer)) else {
        bail!("the offload {} has no records of {pointer:?}, where the next page has them", offload.id());
    };
    let reader = offload.open(&section.name)?;
    let mut copied = 0;
    while copied < section.records {
        let lines = reader.lines(copied, COPIED_RECORDS_MAX, COPIED_BYTES_MAX)?;
        let lines = match (lines.is_empty(), reader.line(copied)?) {
            (true, Some(line)) => vec![reader.bytes(line.start, usize::try_from(line.end - line.start)?)?],
            (true, None) => bail!("the offload {} has fewer records than it says", offload.id()),
            (false, _) => lines,
        };
        for line in lines {
            if copied > 0 {
                file.write_all(b",")?;
            }
            file.write_all(&line)?;
            copied += 1;
        }
    }
    Ok(())
}
