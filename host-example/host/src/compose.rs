//! Composes a policy with what a host does around it, into one component that any runtime of components can run.
//!
//! ```text
//!            ┌──────────── lro:adapter/filter ◄── adapter
//!  host ◄────┤                                      │ lro-filter@0.2.0
//!            │                                      ▼
//!            │                                    policy   of 0.1.0: behind a bridge
//!            │                                      │ types, wasi:filesystem, …
//!            │                                      ▼
//!            └── lro:adapter/messages, files ◄──── results ──► a directory of the host's, or nothing
//! ```
//!
//! Policies go in unchanged. A composed component is a header, then sections; each of its components is a separate section, and
//! the policy is the last of them. What a component imports is matched by name, and the policy is offered every name that it may
//! import. So **another policy can take the place of the first without a composer**: whoever has the composed bytes puts the
//! bytes of the other policy, of the same version of the contract, into that section. That is how the package for Python swaps
//! policies. The alternative, instances of policy and adapter side by side, would need a host that hands a
//! resource of one instance to another through forty functions that it defines, which costs each call of them.

use std::borrow::Cow;

use wasm_encoder::{
    Alias, Component, ComponentAliasSection, ComponentExportKind, ComponentExportSection, ComponentInstanceSection,
    ComponentSectionId, RawSection,
};
use wasmparser::{BinaryReaderError, ComponentExternalKind, Encoding, Parser, Payload, Validator, WasmFeatures};

/// The component that does a host's work: `guest/adapter`.
const ADAPTER: &[u8] = component!("lro_adapter.wasm");

/// The component before policies of the contract 0.1.0: `guest/bridge`.
const BRIDGE: &[u8] = component!("lro_bridge.wasm");

/// The component between a client and a server over HTTP: `guest/middleware`.
pub const MIDDLEWARE: &[u8] = component!("lro_middleware.wasm");

/// The component that forwards requests to one server elsewhere: `guest/forward`.
pub const FORWARD: &[u8] = component!("lro_forward.wasm");

/// What publishes the files of a filter that has them in memory, for [`MIDDLEWARE`]: `guest/store-memory`.
pub const STORE_MEMORY: &[u8] = component!("lro_store_memory.wasm");

/// What publishes the files of a filter that has them in a directory, for [`MIDDLEWARE`]: `guest/store-directory`.
pub const STORE_DIRECTORY: &[u8] = component!("lro_store_directory.wasm");

/// The component that reads offloads: `guest/reader`.
pub const READER: &[u8] = component!("lro_reader.wasm");

/// The component that has tools for ACT: `guest/act`.
pub const ACT: &[u8] = component!("lro_act.wasm");

/// What preopens the directory of offloads alone, for [`STORE_DIRECTORY`] behind [`ACT`]: `guest/act-directory`.
pub const ACT_DIRECTORY: &[u8] = component!("lro_act_directory.wasm");

/// What is behind [`ACT`] where it only reads offloads: `guest/no-tools`.
pub const NO_TOOLS: &[u8] = component!("lro_no_tools.wasm");

const RESULTS_MEMORY: &[u8] = component!("lro_results_memory.wasm");
const RESULTS_DIRECTORY: &[u8] = component!("lro_results_directory.wasm");

/// What the composed component exports.
pub const FILTER: &str = "lro:adapter/filter@0.1.0";
/// What it exports as well: the messages that are given to the filter.
pub const MESSAGES: &str = "lro:adapter/messages@0.1.0";
/// And the files of the last call.
pub const FILES: &str = "lro:adapter/files@0.1.0";

/// The export of a policy, in the newest version of the contract and in the one that needs the bridge.
const NEWEST: &str = "lro:filter/lro-filter@0.2.0";
const V0_1: &str = "lro:filter/lro-filter@0.1.0";

/// Last patch version of WASI 0.2 that the components have.
const WASI_PATCH: u32 = 12;

/// Where the files of a policy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// In memory: the component imports nothing.
    Memory,
    /// In the directory that the host preopens for the call: the component imports `wasi:filesystem`.
    Directory,
}

/// Why a policy cannot be composed.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// Not a component, or not a valid one.
    #[error("not a WebAssembly component")]
    Invalid(#[from] BinaryReaderError),
    /// A module of core WebAssembly.
    #[error("a core module, not a component: build it with `wasm-component-ld`, or `wasm-tools component new`")]
    Module,
    /// It exports no policy.
    #[error("it exports neither `{NEWEST}` nor `{V0_1}`: it is not a policy")]
    NotAPolicy,
    /// It imports what policies cannot have.
    #[error("it imports `{0}`, which no policy can have")]
    Import(String),
    /// It does not fit the contract, such as a policy that uses a type in another form.
    #[error("it does not fit the contract")]
    Unfit(#[source] BinaryReaderError),
}

/// The names that a component imports and exports, and the sections before its first module.
struct Outline<'a> {
    imports: Vec<String>,
    exports: Vec<String>,
    head: Vec<RawSection<'a>>,
}

/// Composes a policy.
///
/// # Errors
/// [`ComposeError`].
pub fn compose(policy: &[u8], files: Files) -> Result<Vec<u8>, ComposeError> {
    let outline = outline(policy)?;
    let bridge = match outline.exports.iter().any(|name| name == NEWEST) {
        true => None,
        false if outline.exports.iter().any(|name| name == V0_1) => Some(BRIDGE),
        false => return Err(ComposeError::NotAPolicy),
    };
    let results = match files {
        Files::Memory => RESULTS_MEMORY,
        Files::Directory => RESULTS_DIRECTORY,
    };
    let of_results = self::outline(results)?;
    let offered = offered(&of_results.exports);
    if let Some(name) = outline.imports.iter().find(|name| !offered.iter().any(|(offered, _)| offered == *name)) {
        return Err(ComposeError::Import(name.clone()));
    }
    let composed = put_together(results, bridge, policy)?;
    Validator::new_with_features(WasmFeatures::default()).validate_all(&composed).map_err(ComposeError::Unfit)?;
    Ok(composed)
}

/// What a component imports.
///
/// # Errors
/// [`ComposeError::Invalid`] and [`ComposeError::Module`].
pub fn imports(component: &[u8]) -> Result<Vec<String>, ComposeError> {
    Ok(outline(component)?.imports)
}

/// Reads the outline of a component.
fn outline(component: &[u8]) -> Result<Outline<'_>, ComposeError> {
    let mut found = Outline { imports: Vec::new(), exports: Vec::new(), head: Vec::new() };
    let (mut is_head, mut depth) = (true, 0);
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        match &payload {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(ComposeError::Module),
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => is_head = false,
            Payload::ComponentImportSection(imports) if depth == 1 => {
                for import in imports.clone() {
                    found.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(exports) if depth == 1 => {
                for export in exports.clone() {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Instance {
                        found.exports.push(export.name.name.to_owned());
                    }
                }
            }
            _ => {}
        }
        if is_head
            && depth == 1
            && let Some((id, range)) = payload.as_section()
        {
            found.head.push(RawSection { id, data: component.get(range).unwrap_or_default() });
        }
    }
    Ok(found)
}

/// The names under which an export is offered to a policy, each with the name of the export: of WASI, every version that it is
/// compatible with.
fn offered(exports: &[String]) -> Vec<(Cow<'_, str>, &str)> {
    exports.iter().flat_map(|export| names(export).into_iter().map(move |name| (name, export.as_str()))).collect()
}

fn names(export: &str) -> Vec<Cow<'_, str>> {
    match export.strip_suffix(&format!("@0.2.{WASI_PATCH}")).filter(|name| name.starts_with("wasi:")) {
        Some(name) => (0..=WASI_PATCH).map(|patch| format!("{name}@0.2.{patch}").into()).collect(),
        None => vec![export.into()],
    }
}

/// A component under construction, with the numbers of what it has so far.
#[derive(Default)]
struct Composition {
    component: Component,
    components: u32,
    instances: u32,
}

impl Composition {
    fn component(&mut self, bytes: &[u8]) -> u32 {
        self.component.section(&RawSection { id: ComponentSectionId::Component.into(), data: bytes });
        self.components += 1;
        self.components - 1
    }

    fn instantiate(&mut self, component: u32, arguments: &[(Cow<'_, str>, u32)]) -> u32 {
        let mut section = ComponentInstanceSection::new();
        let arguments = arguments.iter().map(|(name, instance)| (&**name, ComponentExportKind::Instance, *instance));
        section.instantiate(component, arguments);
        self.component.section(&section);
        self.instances += 1;
        self.instances - 1
    }

    /// The instance that another one exports.
    fn export_of(&mut self, instance: u32, name: &str) -> u32 {
        let mut section = ComponentAliasSection::new();
        section.alias(Alias::InstanceExport { instance, kind: ComponentExportKind::Instance, name });
        self.component.section(&section);
        self.instances += 1;
        self.instances - 1
    }
}

/// Writes the composed component: first what `results` imports, then the components, the policy the last of them, then their
/// instances.
fn put_together(results: &[u8], bridge: Option<&[u8]>, policy: &[u8]) -> Result<Vec<u8>, ComposeError> {
    let mut composition = Composition::default();
    let of_results = outline(results)?;
    of_results.head.iter().for_each(|section| _ = composition.component.section(section));
    composition.instances = u32::try_from(of_results.imports.len()).unwrap_or(u32::MAX);
    let imports: Vec<_> = of_results.imports.iter().map(|name| Cow::Borrowed(name.as_str())).zip(0..).collect();

    let results = composition.component(results);
    let adapter = composition.component(ADAPTER);
    let bridge = bridge.map(|bridge| composition.component(bridge));
    let policy = composition.component(policy);

    let results = composition.instantiate(results, &imports);
    let instances: Vec<(&String, u32)> =
        of_results.exports.iter().map(|name| (name, composition.export_of(results, name))).collect();
    let instance_of = |name: &str| instances.iter().find(|(export, _)| *export == name).map(|(_, instance)| *instance);
    let mut offered: Vec<_> = offered(&of_results.exports)
        .into_iter()
        .filter_map(|(name, export)| Some((name, instance_of(export)?)))
        .collect();

    let instance = composition.instantiate(policy, &offered);
    let filter = match bridge {
        None => composition.export_of(instance, NEWEST),
        Some(bridge) => {
            let old = composition.export_of(instance, V0_1);
            offered.push((V0_1.into(), old));
            let instance = composition.instantiate(bridge, &offered);
            composition.export_of(instance, NEWEST)
        }
    };
    offered.push((NEWEST.into(), filter));
    let adapter = composition.instantiate(adapter, &offered);
    let filter = composition.export_of(adapter, FILTER);

    let mut exports = ComponentExportSection::new();
    exports.export(FILTER, ComponentExportKind::Instance, filter, None);
    for name in [MESSAGES, FILES] {
        if let Some(instance) = instance_of(name) {
            exports.export(name, ComponentExportKind::Instance, instance, None);
        }
    }
    composition.component.section(&exports);
    Ok(composition.component.finish())
}
