//! The error of a splitter.

use std::fmt;

use lro_json::SyntaxError;

/// Why a [`Splitter`](crate::Splitter) stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The document is not JSON, or exceeds a limit.
    Syntax(SyntaxError),
    /// The [`Output`](crate::Output) failed with this error.
    Output(E),
}

impl<E> From<SyntaxError> for Error<E> {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(formatter),
            Self::Output(error) => write!(formatter, "output failed: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Error<E> {}
