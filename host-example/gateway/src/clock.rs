//! Time for futures that no runtime of tokio polls.

use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::time;

/// Wakes futures at their time, on one thread for the whole process.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Handle);

impl Clock {
    /// The clock of the process, which starts with its first use.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub(crate) fn get() -> io::Result<Self> {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        if let Some(clock) = CLOCK.get() {
            return Ok(clock.clone());
        }
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let clock = Self(runtime.handle().clone());
        // Of two that start at once, both work.
        thread::Builder::new()
            .name("lro-clock".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(CLOCK.get_or_init(|| clock).clone())
    }

    /// Waits for so long.
    pub(crate) fn sleep(&self, time: Duration) -> time::Sleep {
        let _context = self.0.enter();
        time::sleep(time)
    }

    /// What a future gives; `None` when that is not there at the deadline, if there is one.
    pub(crate) async fn until<T>(&self, deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
        let Some(deadline) = deadline else { return Some(future.await) };
        let limited = {
            let _context = self.0.enter();
            time::timeout_at(deadline.into(), future)
        };
        limited.await.ok()
    }
}
