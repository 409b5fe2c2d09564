//! Composes a filter, as [`compose`](lro_host::compose::compose) makes it, into a component that handles HTTP, or with tools for
//! ACT (see [`act`](mod@act)).
//!
//! ```text
//!  wasi:http/handler ◄── middleware ──► wasi:http/handler ◄── a server, or what forwards to one
//!                      │      │      │
//!   lro:adapter/filter ▼      ▼      ▼ lro:adapter/reading
//!                   filter  store  reader      without a directory, the store is the reader too
//!                      │     ▲ ▲     │
//!                      └─────┘ └─────┘ wasi:filesystem/preopens, where files are in a directory
//! ```

pub mod act;

pub use act::{TOOLS, act};
pub use lro_host::compose::FORWARD;
use lro_host::compose::{FILTER, Files, MESSAGES, MIDDLEWARE, READER, STORE_DIRECTORY, STORE_MEMORY};
use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, NodeId};

const STORE: &str = "lro:http/store@0.1.0";
const READING: &str = "lro:adapter/reading@0.1.0";
const PREOPENS: &str = "wasi:filesystem/preopens@0.2.12";

/// What the composed component exports, and imports where nothing is behind it.
pub const HANDLER: &str = "wasi:http/handler@0.3.0";

/// Why components cannot be composed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CompositionError(String);

/// Puts a filter, composed with the same `files`, into the middleware, and `server` behind it: a component that exports [`HANDLER`].
/// Without one, the middleware imports the handler behind it, and its host composes it further.
///
/// With [`Files::Directory`], an offload becomes the directory `TENANT/ID` in the one that the host preopens, and clients get the tools
/// and resources that read it.
///
/// # Errors
/// [`CompositionError`].
pub fn middleware(filter: &[u8], files: Files, server: Option<&[u8]>) -> Result<Vec<u8>, CompositionError> {
    let mut composition = Composition::default();
    let middleware = composition.instance("lro:middleware", MIDDLEWARE)?;
    let filter = composition.instance("lro:filter", filter)?;
    let (store, reader) = match files {
        Files::Memory => {
            let store = composition.instance("lro:store", STORE_MEMORY)?;
            (store, store)
        }
        Files::Directory => {
            let store = composition.instance("lro:store", STORE_DIRECTORY)?;
            let reader = composition.instance("lro:reader", READER)?;
            composition.connect(store, filter, PREOPENS)?;
            composition.connect(store, reader, PREOPENS)?;
            (store, reader)
        }
    };
    composition.connect(filter, middleware, MESSAGES)?;
    composition.connect(filter, middleware, FILTER)?;
    composition.connect(store, middleware, STORE)?;
    composition.connect(reader, middleware, READING)?;
    if let Some(server) = server {
        let server = composition.instance("lro:server", server)?;
        composition.connect(server, middleware, HANDLER)?;
    }
    composition.finish(middleware, HANDLER)
}

/// A component under construction.
#[derive(Default)]
struct Composition(CompositionGraph);

impl Composition {
    fn instance(&mut self, name: &str, component: &[u8]) -> Result<NodeId, CompositionError> {
        let package = Package::from_bytes(name, None, component, self.0.types_mut()).map_err(|error| told(&*error))?;
        let package = self.0.register_package(package).map_err(|error| told(&error))?;
        Ok(self.0.instantiate(package))
    }

    /// Gives one instance what another exports.
    fn connect(&mut self, from: NodeId, to: NodeId, interface: &str) -> Result<(), CompositionError> {
        let export = self.export_of(from, interface)?;
        self.0.set_instantiation_argument(to, interface, export).map_err(|error| told(&error))
    }

    fn export_of(&mut self, instance: NodeId, interface: &str) -> Result<NodeId, CompositionError> {
        self.0
            .alias_instance_export(instance, interface)
            .map_err(|_| CompositionError(format!("the component does not export `{interface}`")))
    }

    /// The component that exports what an instance exports.
    fn finish(mut self, instance: NodeId, interface: &str) -> Result<Vec<u8>, CompositionError> {
        let export = self.export_of(instance, interface)?;
        self.0.export(export, interface).map_err(|error| told(&error))?;
        self.0.encode(EncodeOptions::default()).map_err(|error| told(&error))
    }
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> CompositionError {
    let causes = std::iter::successors(Some(error), |error| error.source());
    CompositionError(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}
