//! Runs composed components in wasmtime, and the host in Rust beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use lro_host::compose::{Files, compose};
use lro_host::filter::{Outcome as Decided, Request as HostRequest};
use lro_host::mcp::{self, ToolResult};
use lro_host::policy::{Digest, Policy};
use lro_host::store::Ulid;
use lro_tests::{TENANT, filter_with};
use tempfile::TempDir;
use wasmtime::component::{Component, Linker, ResourceAny, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::filesystem::FsPerms;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

pub(crate) mod bindings {
    wasmtime::component::bindgen!({
        path: ["../wit", "../wit/0.1.0", "../wit/adapter"],
        inline: "
            package test:composed;
            world composed {
                export lro:adapter/messages@0.1.0;
                export lro:adapter/filter@0.1.0;
                export lro:adapter/files@0.1.0;
            }
        ",
        world: "test:composed/composed",
    });
}

pub(crate) use bindings::exports::lro::adapter::filter::{Abilities, Error, Limit, Outcome, Reply, Request, SizeUnit};

/// The id of every offload: each is in a directory of its own.
pub(crate) const ID: &str = "01M8490HTVFQBCBZEZZHXGSEJT";

pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::default);

/// A composed component, compiled.
pub(crate) struct Composed {
    component: Component,
    files: Files,
}

/// What an instance has of WASI.
pub(crate) struct State {
    table: ResourceTable,
    wasi: WasiCtx,
}

impl State {
    pub(crate) fn new(wasi: &mut WasiCtxBuilder) -> Self {
        Self { table: ResourceTable::new(), wasi: wasi.build() }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// An instance for one call.
pub(crate) struct Instance {
    store: Store<State>,
    composed: bindings::Composed,
    directory: Option<TempDir>,
}

/// What became of a result: the message for the client, and the files.
#[derive(PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) reply: String,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Composed {
    pub(crate) fn new(policy: &[u8], files: Files) -> Self {
        Self::of_bytes(&compose(policy, files).unwrap(), files)
    }

    /// A component that was composed already.
    pub(crate) fn of_bytes(composed: &[u8], files: Files) -> Self {
        Self { component: Component::new(&ENGINE, composed).unwrap(), files }
    }

    /// A new instance. Without a directory of the host's, nothing is linked.
    pub(crate) fn instance(&self) -> Instance {
        let mut linker = Linker::new(&ENGINE);
        let mut wasi = WasiCtxBuilder::new();
        let directory = (self.files == Files::Directory).then(|| TempDir::new().unwrap());
        if let Some(directory) = &directory {
            wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
            // Calls have this thread for themselves.
            wasi.allow_blocking_current_thread(true);
            wasi.preopened_dir(directory.path(), "/", FsPerms::ReadWrite).unwrap();
        }
        let mut store = Store::new(&ENGINE, State::new(&mut wasi));
        let composed = bindings::Composed::instantiate(&mut store, &self.component, &linker).unwrap();
        Instance { store, composed, directory }
    }
}

impl Instance {
    /// A message with room for `size` bytes, of these pieces.
    pub(crate) fn message_of<'a>(&mut self, size: u64, pieces: impl Iterator<Item = &'a [u8]>) -> ResourceAny {
        let messages = self.composed.lro_adapter_messages().message();
        let message = messages.call_constructor(&mut self.store, size).unwrap();
        for piece in pieces {
            messages.call_append(&mut self.store, message, piece).unwrap();
        }
        message
    }

    fn message(&mut self, text: &str) -> ResourceAny {
        self.message_of(text.len() as u64, std::iter::once(text.as_bytes()))
    }

    /// All bytes of a message.
    pub(crate) fn read_message(&mut self, message: ResourceAny) -> Vec<u8> {
        let (messages, mut bytes) = (self.composed.lro_adapter_messages().message(), Vec::new());
        loop {
            let piece = messages.call_read(&mut self.store, message, bytes.len() as u64, 1 << 20).unwrap();
            if piece.is_empty() {
                return bytes;
            }
            bytes.extend(piece);
        }
    }

    pub(crate) fn release(&mut self, message: ResourceAny) {
        message.resource_drop(&mut self.store).unwrap();
    }

    pub(crate) fn number(&mut self, message: ResourceAny) -> u32 {
        self.composed.lro_adapter_messages().message().call_number(&mut self.store, message).unwrap()
    }

    pub(crate) fn filter_message(&mut self, request: &Request, message: ResourceAny) -> Result<Reply, Error> {
        let number = self.number(message);
        self.filter_number(request, number)
    }

    pub(crate) fn filter_number(&mut self, request: &Request, message: u32) -> Result<Reply, Error> {
        self.composed.lro_adapter_filter().call_filter(&mut self.store, request, message).unwrap()
    }

    pub(crate) fn filter(&mut self, request: &Request, result: &str) -> Result<Reply, Error> {
        let message = self.message(result);
        let reply = self.filter_message(request, message);
        self.release(message);
        reply
    }

    /// As `filter`, with digests that are computed here.
    pub(crate) fn filter_with_digests(&mut self, request: &Request, result: &str) -> Result<Reply, Error> {
        let message = self.message(result);
        let number = self.number(message);
        let mut reply = self.filter_undigested(request, number)?;
        if reply.outcome == Outcome::Offload {
            let digests: Vec<_> = reply.files.iter().map(|file| self.digest(&file.name, file.digest_from)).collect();
            reply = self.digested(&digests)?;
        }
        self.release(message);
        Ok(reply)
    }

    pub(crate) fn filter_undigested(&mut self, request: &Request, message: u32) -> Result<Reply, Error> {
        self.composed.lro_adapter_filter().call_filter_undigested(&mut self.store, request, message).unwrap()
    }

    pub(crate) fn digested(&mut self, digests: &[Vec<u8>]) -> Result<Reply, Error> {
        self.composed.lro_adapter_filter().call_digested(&mut self.store, digests).unwrap()
    }

    fn digest(&mut self, name: &str, start: u64) -> Vec<u8> {
        let bytes = match &self.directory {
            Some(directory) => fs::read(directory.path().join(name)).unwrap(),
            None => self.read(name).unwrap(),
        };
        Digest::of(&bytes[usize::try_from(start).unwrap()..]).0.to_vec()
    }

    pub(crate) fn failed_message(
        &mut self,
        request: &Request,
        message: ResourceAny,
        reason: &str,
        wrote: bool,
    ) -> Reply {
        let message = self.number(message);
        let filter = self.composed.lro_adapter_filter();
        filter.call_failed(&mut self.store, request, message, reason, wrote).unwrap().unwrap()
    }

    pub(crate) fn failed(&mut self, request: &Request, result: &str, reason: &str, wrote: bool) -> Reply {
        let message = self.message(result);
        self.failed_message(request, message, reason, wrote)
    }

    pub(crate) fn truncate(&mut self, settings: &str, result: &str, warning: &str) -> Result<String, Error> {
        let message = self.message(result);
        let message = self.number(message);
        self.composed.lro_adapter_filter().call_truncate(&mut self.store, settings, message, warning).unwrap()
    }

    pub(crate) fn tools_list(&mut self, settings: &str, result: &str, more: &[String]) -> Result<String, Error> {
        self.composed.lro_adapter_filter().call_tools_list(&mut self.store, settings, result, more).unwrap()
    }

    pub(crate) fn size(&mut self, text: &str, unit: SizeUnit) -> u64 {
        self.composed.lro_adapter_filter().call_size(&mut self.store, text, unit).unwrap()
    }

    pub(crate) fn check(&mut self, settings: &str) -> Result<(), Error> {
        self.composed.lro_adapter_filter().call_check(&mut self.store, settings).unwrap()
    }

    /// A file of the last call.
    pub(crate) fn read(&mut self, name: &str) -> Option<Vec<u8>> {
        let (files, mut bytes) = (self.composed.lro_adapter_files(), Vec::new());
        loop {
            let slice = files.call_read_file(&mut self.store, name, bytes.len() as u64, 1 << 20).unwrap()?;
            if slice.is_empty() {
                return Some(bytes);
            }
            bytes.extend(slice);
        }
    }

    /// The names in the directory of the host.
    pub(crate) fn names(&self) -> Vec<String> {
        let directory = self.directory.as_ref().unwrap().path();
        listed(directory).into_keys().collect()
    }

    /// The reply and the files, from where they are.
    pub(crate) fn outcomes(&mut self, request: &Request, result: &str) -> Outcomes {
        let reply = self.filter(request, result).unwrap();
        self.outcomes_of(reply, result)
    }

    pub(crate) fn outcomes_of(&mut self, reply: Reply, result: &str) -> Outcomes {
        let failure = reply.failure.as_ref().map(|failure| failure.reason.as_str()).unwrap_or_default();
        let names: Vec<_> = reply.files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
        let of_component: BTreeMap<_, _> =
            names.iter().map(|(name, _)| (name.clone(), self.read(name).unwrap())).collect();
        if let Some(directory) = &self.directory {
            assert!(listed(directory.path()) == of_component, "the directory has other files: {failure}");
        }
        for (name, bytes) in names {
            assert_eq!(of_component[&name].len() as u64, bytes, "{name}");
        }
        Outcomes { reply: reply.tool_result.unwrap_or_else(|| result.to_owned()), files: of_component }
    }
}

/// The files of a directory by name.
fn listed(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// What the host in Rust makes of a result, and the request for a component to make the same of it.
pub(crate) fn in_rust(policy: &Policy, settings: &str, request: HostRequest, result: &str) -> (Outcomes, Request) {
    let root = TempDir::new().unwrap();
    let filter = filter_with(policy.clone(), &root.path().join("offloads"));
    let parsed = ToolResult::parse(Bytes::from(result.to_owned())).unwrap();
    let request = HostRequest { is_error: parsed.is_error(), ..request };
    let decision = filter.apply(&request, parsed.payload());
    assert!(decision.failure.is_none(), "{:?}", decision.failure);
    let reply = String::from_utf8(mcp::answer(&parsed, &decision.outcome).to_vec()).unwrap();
    let store = filter.store.as_ref().unwrap();
    let (id, files) = match &decision.outcome {
        Decided::Offload(offloaded) => (offloaded.offload.id(), listed(offloaded.offload.path())),
        _ => (ID.parse().unwrap(), BTreeMap::new()),
    };
    let shown_path = store.shown_path(TENANT, id).to_str().unwrap().to_owned();
    (Outcomes { reply, files }, request_of(&request, id, shown_path, settings))
}

fn request_of(request: &HostRequest, id: Ulid, shown_path: String, settings: &str) -> Request {
    Request {
        id: id.to_string(),
        tenant: request.tenant.clone(),
        session: request.session.clone(),
        tool: request.tool.clone(),
        query: request.query.clone(),
        input_schema: request.input_schema.clone(),
        shown_path,
        abilities: Abilities::SHELL,
        reader_limit: request.reader_limit.map(|limit| Limit { amount: limit.amount, unit: unit(limit.unit) }),
        descriptor_room: request.descriptor_room,
        settings: settings.to_owned(),
    }
}

fn unit(unit: lro_host::settings::SizeUnit) -> SizeUnit {
    match unit {
        lro_host::settings::SizeUnit::Bytes => SizeUnit::Bytes,
        lro_host::settings::SizeUnit::Characters => SizeUnit::Characters,
        lro_host::settings::SizeUnit::Tokens => SizeUnit::Tokens,
    }
}

/// A request for a component alone.
pub(crate) fn request(settings: &str) -> Request {
    let host = HostRequest::new(TENANT, "tool");
    request_of(&host, ID.parse().unwrap(), "/offloads".to_owned(), settings)
}
