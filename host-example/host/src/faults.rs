//! Panics of the host: a panic ends the operation it occurs in and nothing else. Fail points let tests cause one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

/// Calls a function and returns the message of a panic as the error. The panic hook of the process has run by then.
///
/// State shared with other threads must stay consistent wherever a panic can occur: locks are taken over from a thread
/// that panicked, and destructors release permits, files and directories.
pub fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| text(panic.as_ref()))
}

/// As [`caught`], for a future.
pub async fn caught_while<T>(doing: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(doing).catch_unwind().await.map_err(|panic| text(panic.as_ref()))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// A point where a test can make the host fail, panic, wait or exit. Expands to nothing without the feature
/// `fail-points`. A point that can fail takes a function that converts an [`std::io::Error`] into its error.
#[doc(hidden)]
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {
        #[cfg(feature = "fail-points")]
        let _ = $crate::faults::reached($name);
    };
    ($name:literal, $error:expr) => {
        #[cfg(feature = "fail-points")]
        if let Some(error) = $crate::faults::reached($name) {
            return Err(From::from($error(error)));
        }
    };
}

#[doc(hidden)]
pub use fail_point;

/// Runs the action that a test configured for a fail point. In terms of the crate `fail`, `return` returns an error and
/// `return(exit)` ends the process.
#[doc(hidden)]
#[cfg(feature = "fail-points")]
pub fn reached(name: &str) -> Option<std::io::Error> {
    fail::fail_point!(name, |action| match action.as_deref() {
        Some("exit") => std::process::exit(70),
        _ => Some(std::io::Error::other(format!("the fail point {name}"))),
    });
    None
}
