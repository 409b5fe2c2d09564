//! `wasi:io/streams`: streams of the files of a call, which the standard libraries of languages use, and null streams.
//! Writes count like those through a descriptor; all streams are always ready.

use std::io;
use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::sync::io::streams::{
    Host, HostInputStream, HostOutputStream, InputStream, OutputStream, StreamError as WasiStreamError,
};
use wasmtime_wasi::p2::{DynPollable, StreamError, StreamResult};

use super::inert::View;
use super::output::{OpenFile, WriteError};

/// Maximum bytes per read or write.
const BYTES_MAX: u64 = 1 << 20;

/// A stream of a file and its position.
pub(super) struct FileStream {
    /// The file, which the stream may keep open longer than the descriptor does.
    pub(super) open: Arc<OpenFile>,
    /// `None` if it appends.
    pub(super) offset: Option<u64>,
}

impl View<'_> {
    fn write_to(&mut self, stream: &Resource<OutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        let state = &mut *self.0;
        let Some(stream) = state.streams.get_mut(&stream.rep()) else { return Ok(()) };
        let offset = match stream.offset {
            Some(offset) => offset,
            None => {
                state.output.drain().map_err(failed)?;
                stream.open.file.metadata().map_err(|error| failed(WriteError::Io(error)))?.len()
            }
        };
        let written = state.output.write(&stream.open, offset, bytes).map_err(failed)?;
        stream.offset = stream.offset.map(|offset| offset + written);
        Ok(())
    }

    fn read_from(&mut self, stream: &Resource<InputStream>, length: u64) -> StreamResult<Vec<u8>> {
        let state = &mut *self.0;
        let Some(stream) = state.streams.get_mut(&stream.rep()) else { return Err(StreamError::Closed) };
        state.output.drain().map_err(failed)?;
        let offset = stream.offset.unwrap_or_default();
        let read = stream.open.read(offset, length.min(BYTES_MAX), &state.clock);
        let bytes = read.map_err(|error| failed(WriteError::Io(error)))?;
        if bytes.is_empty() && length > 0 {
            return Err(StreamError::Closed);
        }
        stream.offset = Some(offset + bytes.len() as u64);
        Ok(bytes)
    }

    fn write_zeroes_to(&mut self, stream: &Resource<OutputStream>, length: u64) -> StreamResult<()> {
        if length > BYTES_MAX {
            return Err(StreamError::Trap(wasmtime::format_err!(
                "asked for {length} zeros at a time; the limit is {BYTES_MAX}"
            )));
        }
        self.write_to(stream, vec![0; usize::try_from(length).unwrap_or_default()])
    }
}

/// Converts an error so that the standard library of a guest recognizes its error number.
fn failed(error: WriteError) -> StreamError {
    match error {
        WriteError::Quota(_) => StreamError::LastOperationFailed(io::Error::from(io::ErrorKind::QuotaExceeded).into()),
        WriteError::Deadline => StreamError::Trap(wasmtime::Trap::Interrupt.into()),
        WriteError::Io(error) => StreamError::LastOperationFailed(error.into()),
    }
}

impl Host for View<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<WasiStreamError> {
        Host::convert_stream_error(&mut self.0.table, error)
    }
}

impl HostInputStream for View<'_> {
    fn read(&mut self, stream: Resource<InputStream>, length: u64) -> StreamResult<Vec<u8>> {
        self.read_from(&stream, length)
    }

    fn blocking_read(&mut self, stream: Resource<InputStream>, length: u64) -> StreamResult<Vec<u8>> {
        self.read_from(&stream, length)
    }

    fn skip(&mut self, stream: Resource<InputStream>, length: u64) -> StreamResult<u64> {
        Ok(self.read_from(&stream, length)?.len() as u64)
    }

    fn blocking_skip(&mut self, stream: Resource<InputStream>, length: u64) -> StreamResult<u64> {
        Ok(self.read_from(&stream, length)?.len() as u64)
    }

    fn subscribe(&mut self, _: Resource<InputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        self.ready()
    }

    fn drop(&mut self, stream: Resource<InputStream>) -> wasmtime::Result<()> {
        self.0.streams.remove(&stream.rep());
        self.0.table.delete(stream)?;
        Ok(())
    }
}

impl HostOutputStream for View<'_> {
    fn check_write(&mut self, _: Resource<OutputStream>) -> StreamResult<u64> {
        Ok(BYTES_MAX)
    }

    fn write(&mut self, stream: Resource<OutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.write_to(&stream, bytes)
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<OutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.write_to(&stream, bytes)
    }

    fn flush(&mut self, _: Resource<OutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn blocking_flush(&mut self, _: Resource<OutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn subscribe(&mut self, _: Resource<OutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        self.ready()
    }

    fn write_zeroes(&mut self, stream: Resource<OutputStream>, length: u64) -> StreamResult<()> {
        self.write_zeroes_to(&stream, length)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<OutputStream>, length: u64) -> StreamResult<()> {
        self.write_zeroes_to(&stream, length)
    }

    fn splice(&mut self, to: Resource<OutputStream>, from: Resource<InputStream>, length: u64) -> StreamResult<u64> {
        let bytes = self.read_from(&from, length)?;
        let length = bytes.len() as u64;
        self.write_to(&to, bytes)?;
        Ok(length)
    }

    fn blocking_splice(
        &mut self,
        to: Resource<OutputStream>,
        from: Resource<InputStream>,
        length: u64,
    ) -> StreamResult<u64> {
        self.splice(to, from, length)
    }

    fn drop(&mut self, stream: Resource<OutputStream>) -> wasmtime::Result<()> {
        self.0.streams.remove(&stream.rep());
        self.0.table.delete(stream)?;
        Ok(())
    }
}
