//! Downloads of records as a table: `?format=csv` or `?format=parquet` behind the address of their file.
//!
//! A table is made while it is sent, in two or three passes over the file, so that neither memory nor the disk holds it. So it has
//! no known length, and no ranges.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use lro_host::mcp::Download;
use lro_table::{Table, TableError, TableFormat};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::download::{attachment, is_known};
use crate::listener::body::PIECE_BYTES;
use crate::listener::guard::Refusal;

/// Media type of the files that can become tables.
const RECORDS: &str = "application/jsonl";

/// Pieces of a table that wait for the client.
const PIECES_MAX: usize = 2;

/// A table that a query asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    format: TableFormat,
    /// Its name in a query, and the extension of its files.
    name: &'static str,
    media_type: &'static str,
}

const FORMATS: [Wanted; 2] = [
    Wanted { format: TableFormat::Csv, name: "csv", media_type: "text/csv; charset=utf-8" },
    Wanted { format: TableFormat::Parquet, name: "parquet", media_type: "application/vnd.apache.parquet" },
];

/// A piece of a body, or why there is no more. A body without [`Piece::End`] is not whole.
enum Piece {
    Bytes(Bytes),
    End,
    Failed(TableError),
}

/// The format that the query of an address names; `None` for the file itself.
pub(super) fn wanted(query: Option<&str>) -> Result<Option<Wanted>, Refusal> {
    let values = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("format="));
    let Some(name) = { values }.next() else { return Ok(None) };
    let known = FORMATS.into_iter().find(|format| format.name == name);
    let unknown = || refused("`format` is not one of `csv` and `parquet`: leave it out for the file itself".to_owned());
    known.map(Some).ok_or_else(unknown)
}

fn refused(text: String) -> Refusal {
    Refusal::Status(StatusCode::BAD_REQUEST, text)
}

/// The response with the table of a file. Its columns are known before it begins.
pub(super) async fn response(
    file: Download,
    wanted: Wanted,
    headers: &HeaderMap,
    method: &Method,
) -> Result<Response, Refusal> {
    let Wanted { format, name, media_type } = wanted;
    if file.media_type != RECORDS {
        let text = format!("`{}` is {}: only files of records ({RECORDS}) become tables", file.name, file.media_type);
        return Err(refused(text));
    }
    let etag = format!("\"{}-{name}\"", file.sha256);
    let filename = format!("{}.{name}", file.name.strip_suffix(".jsonl").unwrap_or(&file.name));
    if is_known(headers, &etag) {
        return Ok(attachment(StatusCode::NOT_MODIFIED, None, &etag, Body::empty()));
    }
    let content = Some((filename.as_str(), media_type));
    if method == Method::HEAD {
        return Ok(attachment(StatusCode::OK, content, &etag, Body::empty()));
    }
    let mut records = Records { file, at: 0 };
    let planned = tokio::task::spawn_blocking(move || Ok((Table::of(format, &mut records)?, records))).await;
    let (table, mut records) = match planned {
        Ok(Ok(planned)) => planned,
        Ok(Err(error @ TableError::Columns)) => return Err(refused(error.to_string())),
        Ok(Err(error)) => return Err(failed(&error)),
        Err(error) => return Err(failed(&error)),
    };
    let (pieces, body) = mpsc::channel(PIECES_MAX);
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        let written = table.write(&mut records, &mut out).and_then(|()| Ok(out.flush()?));
        // Without a reader there is nobody to tell.
        let _ = pieces.blocking_send(written.map_or_else(Piece::Failed, |()| Piece::End));
    });
    Ok(attachment(StatusCode::OK, content, &etag, Body::from_stream(stream_of(body))))
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Refusal {
    tracing::warn!(error, "cannot make a table of a file");
    Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, "the table cannot be made: download the file itself".to_owned())
}

fn stream_of(body: Receiver<Piece>) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold(body, |mut body| async move {
        match body.recv().await {
            Some(Piece::Bytes(bytes)) => Ok(Some((bytes, body))),
            Some(Piece::End) => Ok(None),
            Some(Piece::Failed(error)) => Err(io::Error::other(error)),
            None => Err(io::Error::other("the table was not finished")),
        }
    })
}

/// The records of a file.
struct Records {
    file: Download,
    at: u64,
}

impl Read for Records {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.bytes.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = left.min(bytes.len());
        let read = self.file.read(self.at, most).map_err(io::Error::other)?;
        let Some(target) = bytes.get_mut(..most).filter(|_| read.len() == most) else {
            return Err(io::Error::other("the file has become shorter"));
        };
        target.copy_from_slice(&read);
        self.at += read.len() as u64;
        Ok(read.len())
    }
}

impl Seek for Records {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let at = match position {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.bytes.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Sends what is written, when the pieces before are sent.
struct Pieces(Sender<Piece>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Piece::Bytes(Bytes::copy_from_slice(bytes));
        self.0.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
