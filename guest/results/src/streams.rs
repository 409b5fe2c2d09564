//! `wasi:io`: streams of the files of a call, which the standard libraries of languages use, and streams without a file, which are
//! empty or discard what is written. All are always ready.

use std::cell::Cell;

use crate::bindings::exports::wasi::io::streams::{Error, InputStreamBorrow, Pollable, StreamError as WasiStreamError};
use crate::bindings::exports::wasi::io::{error, poll, streams};
use crate::directory::Shared;
use crate::{ErrorCode, Results, Storage};

/// Maximum bytes per read or write.
const BYTES_MAX: u64 = 1 << 20;

/// Why a stream failed.
pub struct StreamError(pub(crate) ErrorCode);

/// A pollable that is always ready.
pub struct Ready;

/// A stream that is read: of a file and from a position on, or empty.
pub struct InputStream<S: Storage> {
    file: Option<Shared<S>>,
    offset: Cell<u64>,
}

/// A stream that is written: to a file, or to nowhere.
pub struct OutputStream<S: Storage> {
    file: Option<Shared<S>>,
    /// `None` if it appends.
    offset: Cell<Option<u64>>,
}

impl<S: Storage> InputStream<S> {
    pub(crate) fn of(file: Shared<S>, offset: u64) -> Self {
        Self { file: Some(file), offset: offset.into() }
    }

    pub(crate) fn empty() -> Self {
        Self { file: None, offset: 0.into() }
    }

    fn take(&self, length: u64) -> Result<Vec<u8>, WasiStreamError> {
        let Some(file) = &self.file else { return Err(WasiStreamError::Closed) };
        let length = length.min(BYTES_MAX);
        let read = S::with(|state| state.directory.read(file, self.offset.get(), length)).map_err(failed)?;
        if read.is_empty() && length > 0 {
            return Err(WasiStreamError::Closed);
        }
        self.offset.set(self.offset.get() + read.len() as u64);
        Ok(read)
    }
}

impl<S: Storage> OutputStream<S> {
    pub(crate) fn of(file: Shared<S>, offset: Option<u64>) -> Self {
        Self { file: Some(file), offset: offset.into() }
    }

    pub(crate) fn sink() -> Self {
        Self { file: None, offset: None.into() }
    }

    fn put(&self, bytes: Vec<u8>) -> Result<(), WasiStreamError> {
        let Some(file) = &self.file else { return Ok(()) };
        let offset = self.offset.get().unwrap_or_else(|| file.borrow().bytes);
        let end = offset + bytes.len() as u64;
        S::with(|state| state.directory.write(file, offset, bytes)).map_err(failed)?;
        self.offset.set(self.offset.get().map(|_| end));
        Ok(())
    }
}

fn failed(code: ErrorCode) -> WasiStreamError {
    WasiStreamError::LastOperationFailed(Error::new(StreamError(code)))
}

impl<S: Storage> error::Guest for Results<S> {
    type Error = StreamError;
}

impl error::GuestError for StreamError {
    fn to_debug_string(&self) -> String {
        self.0.to_string()
    }
}

impl<S: Storage> poll::Guest for Results<S> {
    type Pollable = Ready;

    fn poll(pollables: Vec<poll::PollableBorrow<'_>>) -> Vec<u32> {
        (0..).zip(pollables).map(|(index, _)| index).collect()
    }
}

impl poll::GuestPollable for Ready {
    fn ready(&self) -> bool {
        true
    }

    fn block(&self) {}
}

impl<S: Storage> streams::Guest for Results<S> {
    type InputStream = InputStream<S>;
    type OutputStream = OutputStream<S>;
}

impl<S: Storage> streams::GuestInputStream for InputStream<S> {
    fn read(&self, length: u64) -> Result<Vec<u8>, WasiStreamError> {
        self.take(length)
    }

    fn blocking_read(&self, length: u64) -> Result<Vec<u8>, WasiStreamError> {
        self.take(length)
    }

    fn skip(&self, length: u64) -> Result<u64, WasiStreamError> {
        self.take(length).map(|bytes| bytes.len() as u64)
    }

    fn blocking_skip(&self, length: u64) -> Result<u64, WasiStreamError> {
        self.skip(length)
    }

    fn subscribe(&self) -> Pollable {
        Pollable::new(Ready)
    }
}

impl<S: Storage> streams::GuestOutputStream for OutputStream<S> {
    fn check_write(&self) -> Result<u64, WasiStreamError> {
        Ok(BYTES_MAX)
    }

    fn write(&self, bytes: Vec<u8>) -> Result<(), WasiStreamError> {
        self.put(bytes)
    }

    fn blocking_write_and_flush(&self, bytes: Vec<u8>) -> Result<(), WasiStreamError> {
        self.put(bytes)
    }

    fn flush(&self) -> Result<(), WasiStreamError> {
        Ok(())
    }

    fn blocking_flush(&self) -> Result<(), WasiStreamError> {
        Ok(())
    }

    fn subscribe(&self) -> Pollable {
        Pollable::new(Ready)
    }

    fn write_zeroes(&self, length: u64) -> Result<(), WasiStreamError> {
        if length > BYTES_MAX {
            return Err(failed(ErrorCode::Invalid));
        }
        self.put(vec![0; usize::try_from(length).unwrap_or_default()])
    }

    fn blocking_write_zeroes_and_flush(&self, length: u64) -> Result<(), WasiStreamError> {
        self.write_zeroes(length)
    }

    fn splice(&self, from: InputStreamBorrow<'_>, length: u64) -> Result<u64, WasiStreamError> {
        let bytes = from.get::<InputStream<S>>().take(length)?;
        let length = bytes.len() as u64;
        self.put(bytes)?;
        Ok(length)
    }

    fn blocking_splice(&self, from: InputStreamBorrow<'_>, length: u64) -> Result<u64, WasiStreamError> {
        self.splice(from, length)
    }
}
