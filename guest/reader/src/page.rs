//! Pages and resources.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lro_reading::resource::ResourceUri;
use lro_reading::tool::{self, Failure, cursor_advice, only_file, page_result};
use lro_reading::{CursorKey, PAGE_BYTES_MIN, Page, PageError, PageRequest, PageSource, find_section, read_page};

use crate::bindings::exports::lro::adapter::reading::Caller;
use crate::offload::{File, FileError, Offload};

/// The call of `lro_read` with these arguments.
pub(crate) fn read(caller: &Caller, arguments: &str) -> Result<String, Failure> {
    let asked = tool::read(arguments)?;
    let offload = Offload::find(caller, &asked.handle)?;
    let section = match &asked.section {
        Some(section) => section.clone(),
        None => only_file(&offload.record)?,
    };
    let request = PageRequest {
        start: asked.start.clone(),
        bytes: asked.bytes.map(|bytes| bytes.min(tool::PAGE_BYTES_MAX)),
        records: asked.limit,
        ..PageRequest::new(caller.tenant.clone(), offload.id, section)
    };
    let page = page(caller, &offload, &request).map_err(|error| match error {
        PageError::Cursor(error) => Failure::Tool(cursor_advice(error, &asked)),
        error => Failure::Tool(error.to_string()),
    })?;
    page_result(&page, &asked)
}

/// The resource with this URI. The error is a message for the client.
pub(crate) fn resource(caller: &Caller, uri: &str, modern: bool) -> Result<String, String> {
    let wanted = ResourceUri::parse(uri)?;
    let offload = Offload::find(caller, &wanted.offload.to_string()).map_err(Failure::message)?;
    let page = |request: &PageRequest| page(caller, &offload, request);
    wanted
        .read(uri, &caller.tenant, &offload.record, caller.page_bytes, modern, page)
        .map_err(|error| error.to_string())
}

fn page(caller: &Caller, offload: &Offload, request: &PageRequest) -> Result<Page, PageError<FileError>> {
    let key: [u8; 32] = caller
        .cursor_key
        .as_slice()
        .try_into()
        .map_err(|_| PageError::Store(FileError::Other("a cursor key has 32 bytes".to_owned())))?;
    let key = CursorKey::new(key);
    let cursor = request.cursor(&key, time(caller.now))?;
    let (number, file) = find_section(&offload.record, &request.section)?;
    let section = offload.open(file).map_err(PageError::Store)?;
    let source =
        PageSource { offload: offload.id, expires: time(offload.expires), growth: None, number, section: &section };
    let sign = |cursor: &_| Ok(key.sign(&request.tenant, cursor));
    let verify = |file: &File| offload.verify_part(file);
    read_page(request, &source, cursor, caller.page_bytes.max(PAGE_BYTES_MIN), verify, sign)
}

fn time(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(milliseconds)
}
