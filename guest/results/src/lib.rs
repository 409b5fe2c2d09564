//! The component of the world `lro-results` as a library: it owns the tool result of a call and the files that a policy writes, so
//! that a policy can be composed with a component that calls it.
//!
//! Where the files are is the choice of [`Storage`]: `lro-results-memory` keeps them in memory and imports nothing,
//! `lro-results-directory` writes them to a directory of the host's.
//!
//! | module | what it does |
//! |---|---|
//! | `messages` | messages, put together from their pieces |
//! | `result` | the result in one of them: its parts, read in slices |
//! | `directory` | the files of a call: names, bounds, digests |
//! | `filesystem` | `wasi:filesystem` for the policy |
//! | `streams` | `wasi:io` |
//! | `inert` | the interfaces that languages import without use |
//! | `held` | what the adapter asks for |

mod directory;
mod filesystem;
mod held;
mod inert;
mod messages;
mod result;
mod streams;

/// Rust types of the WIT files, and the macro that exports the component.
#[expect(missing_docs, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter"],
        world: "lro:adapter/lro-results",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "lro_results::bindings",
    });
}

use std::marker::PhantomData;

pub use bindings::exports::wasi::filesystem::types::ErrorCode;
use directory::Directory;
use messages::Messages;
use result::ResultOfCall;

/// Where the files of a policy are. Names are plain file names; sizes and positions are in bytes.
pub trait Storage: Default + 'static {
    /// An open file. It stays usable after it was renamed or removed.
    type File: 'static;

    /// Runs `work` on the state of the component, of which there is one.
    fn with<T>(work: impl FnOnce(&mut State<Self>) -> T) -> T;

    /// Prepares an empty directory. The error is for people.
    fn open(&mut self) -> Result<(), String>;

    /// Creates a file, which must not exist.
    fn create(&mut self, name: &str) -> Result<Self::File, ErrorCode>;

    /// Writes bytes at an offset that is not beyond the end.
    fn write(&mut self, file: &mut Self::File, offset: u64, bytes: Vec<u8>) -> Result<(), ErrorCode>;

    /// Reads up to so many bytes at an offset; none only at the end.
    fn read(&self, file: &Self::File, offset: u64, length: u64) -> Result<Vec<u8>, ErrorCode>;

    /// Removes the content of a file.
    fn clear(&mut self, file: &mut Self::File) -> Result<(), ErrorCode>;

    /// Renames a file, and replaces one of the new name.
    fn rename(&mut self, old: &str, new: &str) -> Result<(), ErrorCode>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> Result<(), ErrorCode>;
}

/// The call under way.
pub struct State<S: Storage> {
    messages: Messages,
    result: ResultOfCall,
    directory: Directory<S>,
    /// Random numbers given so far.
    random: u64,
}

impl<S: Storage> Default for State<S> {
    fn default() -> Self {
        Self {
            messages: Messages::default(),
            result: ResultOfCall::default(),
            directory: Directory::default(),
            random: 0,
        }
    }
}

/// The component, to be given to the macro [`export`](bindings::export).
pub struct Results<S>(PhantomData<S>);
