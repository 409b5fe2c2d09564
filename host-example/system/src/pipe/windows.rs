use std::io::{self, PipeWriter, Write};
use std::os::windows::io::AsHandle;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

/// Maximum size of what is handed to the thread at a time, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Number of such pieces that wait for the thread.
const PIECES: usize = 1;

/// The end of a pipe to write to, which never waits for the reader: a thread does. When it is dropped, the thread writes what
/// it has been given, and closes the pipe.
#[derive(Debug)]
pub struct NonBlockingPipe(SyncSender<Vec<u8>>);

/// Waits until such a pipe has room.
#[derive(Debug)]
pub struct Readiness(Receiver<()>);

impl NonBlockingPipe {
    /// Takes a pipe, and writes to it on a thread.
    ///
    /// # Errors
    /// When there cannot be another thread.
    pub fn new(mut pipe: PipeWriter) -> io::Result<(Self, Readiness)> {
        let (pieces, given) = mpsc::sync_channel::<Vec<u8>>(PIECES);
        let (written, ready) = mpsc::sync_channel(1);
        thread::Builder::new().name("lro-pipe".into()).spawn(move || {
            for piece in given {
                if pipe.write_all(&piece).is_err() {
                    break;
                }
                // Full if nobody has waited since the last piece.
                let _ = written.try_send(());
            }
        })?;
        Ok((Self(pieces), Readiness(ready)))
    }

    /// Hands on as much as there is room for, and returns how much that is.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) when there is no room; [`BrokenPipe`](io::ErrorKind::BrokenPipe) when the
    /// reader is gone.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        match self.0.try_send(piece.to_vec()) {
            Ok(()) => Ok(piece.len()),
            Err(TrySendError::Full(_)) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TrySendError::Disconnected(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Readiness {
    /// Waits until there may be room, at most so long.
    pub fn wait(&self, timeout: Duration) {
        let _ = self.0.recv_timeout(timeout);
    }
}

/// Does nothing: the size of a pipe is that of its creation.
pub fn widen_pipe(_: impl AsHandle) {}
