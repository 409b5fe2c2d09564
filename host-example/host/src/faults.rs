//! What goes wrong in the host itself: a panic ends what it happened in and nothing else, and tests make it happen.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

/// Does something. A panic becomes its text; the hook of the process has told of it by then.
///
/// What is shared with other threads has to be right whenever a panic can come: locks are taken over from a thread that
/// panicked, and places, files and directories are given back by destructors.
pub fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| text(panic.as_ref()))
}

/// As [`caught`], for what is done step by step.
pub async fn caught_while<T>(doing: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(doing).catch_unwind().await.map_err(|panic| text(panic.as_ref()))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text").to_owned()
}

/// A place where a test makes the host fail, panic, wait or exit; without the feature `fail-points` it is nothing. A place
/// that can fail names what makes its error of an [`std::io::Error`].
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

/// Does what a test configured for a place: of the crate `fail`, `return` is an error, and `return(exit)` the end of the
/// process.
#[doc(hidden)]
#[cfg(feature = "fail-points")]
pub fn reached(name: &str) -> Option<std::io::Error> {
    fail::fail_point!(name, |action| match action.as_deref() {
        Some("exit") => std::process::exit(70),
        _ => Some(std::io::Error::other(format!("the fail point {name}"))),
    });
    None
}
