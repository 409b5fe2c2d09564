//! Bodies: read up to a limit, and written.

use wit_bindgen::{FutureReader, StreamReader, StreamResult, StreamWriter};

use crate::bindings::wasi::http::types::{ErrorCode, Fields, Request, Response};
use crate::bindings::{wit_future, wit_stream};

/// Bytes read at a time.
pub(crate) const SLICE_BYTES: usize = 64 << 10;

/// What comes after a body.
pub(crate) type Trailers = FutureReader<Result<Option<Fields>, ErrorCode>>;

/// A body that was read.
pub(crate) enum Read {
    Whole(Vec<u8>),
    /// It is longer than the limit; its beginning.
    Longer(Vec<u8>),
}

/// Takes the body of a request.
pub(crate) fn of_request(request: Request) -> (StreamReader<u8>, Trailers) {
    Request::consume_body(request, consumed())
}

/// Takes the body of a response.
pub(crate) fn of_response(response: Response) -> (StreamReader<u8>, Trailers) {
    Response::consume_body(response, consumed())
}

/// What says that a body was taken without an error.
fn consumed() -> FutureReader<Result<(), ErrorCode>> {
    wit_future::new(|| Ok(())).1
}

/// Reads a body of at most `limit` bytes. `expected` is its length, if it is known.
pub(crate) async fn read(body: &mut StreamReader<u8>, limit: usize, expected: Option<usize>) -> Read {
    let mut bytes = Vec::new();
    if expected.is_some_and(|expected| expected > limit) {
        return Read::Longer(bytes);
    }
    // One more, so that there is room for a read that finds the end.
    bytes.reserve_exact(expected.map_or(SLICE_BYTES, |expected| expected + 1));
    loop {
        let (result, read) = body.read(bytes).await;
        bytes = read;
        if bytes.len() > limit {
            return Read::Longer(bytes);
        }
        if !matches!(result, StreamResult::Complete(_)) {
            return Read::Whole(bytes);
        }
        if bytes.len() == bytes.capacity() {
            bytes.reserve(SLICE_BYTES);
        }
    }
}

/// A body of these bytes, without trailers.
pub(crate) fn of_bytes(bytes: Vec<u8>) -> (StreamReader<u8>, Trailers) {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        writer.write_all(bytes).await;
    });
    (reader, no_trailers())
}

/// A body that is longer than its beginning.
pub(crate) fn of_rest(beginning: Vec<u8>, mut rest: StreamReader<u8>) -> StreamReader<u8> {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        let mut piece = beginning;
        while write(&mut writer, piece).await {
            let (result, read) = rest.read(Vec::with_capacity(SLICE_BYTES)).await;
            if !matches!(result, StreamResult::Complete(_)) {
                return;
            }
            piece = read;
        }
    });
    reader
}

/// Writes bytes. Returns whether the reader is still there.
pub(crate) async fn write(writer: &mut StreamWriter<u8>, bytes: Vec<u8>) -> bool {
    writer.write_all(bytes).await.is_empty()
}

pub(crate) fn no_trailers() -> Trailers {
    wit_future::new(|| Ok(None)).1
}

/// Reads the beginning of a body.
pub(crate) async fn read_some(body: &mut StreamReader<u8>) -> Vec<u8> {
    body.read(Vec::with_capacity(SLICE_BYTES)).await.1
}
