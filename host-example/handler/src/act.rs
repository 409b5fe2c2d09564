//! Composes a filter into a component with tools for ACT.
//!
//! ```text
//!  act:tools/tool-provider ◄── act ──► act:tools/tool-provider ◄── a component with tools, or one without
//!                             │ │ │
//!          lro:adapter/filter ▼ │ ▼ lro:adapter/reading
//!                        filter │ reader
//!                             │ ▼ │
//!                             └► store ◄┘ wasi:filesystem/preopens
//!                                 ▼
//!                             directory ──► wasi:filesystem/preopens
//! ```

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use lro_host::compose::{ACT, ACT_DIRECTORY, FILTER, MESSAGES, NO_TOOLS, READER, STORE_DIRECTORY};
use serde_json::{Map, Value, json};
use wasm_encoder::{
    Alias, CanonicalFunctionSection, CanonicalOption, CodeSection, Component, ComponentAliasSection,
    ComponentExportKind, ComponentExportSection, ComponentInstanceSection, ComponentSection as _, ComponentTypeSection,
    ConstExpr, CustomSection, DataSection, ExportKind, ExportSection, Function, FunctionSection, InstanceSection,
    MemorySection, MemoryType, Module, ModuleArg, ModuleSection, PrimitiveValType, TypeSection, ValType,
};
use wasmparser::{Parser, Payload};

use crate::{Composition, CompositionError, PREOPENS, READING, STORE, told};

/// What the composed component exports, and the component behind it.
pub const TOOLS: &str = "act:tools/tool-provider@0.2.0";

const SETTINGS: &str = "lro:act/settings@0.1.0";
/// The custom section in which a component says what it is, and what it wants of an ACT host.
const MANIFEST: &str = "act:component";
const FILESYSTEM: &str = "wasi:filesystem";

const PAGE_BYTES: u64 = 65_536;

const RESULT_BYTES: NonZeroU64 = NonZeroU64::new(64 << 20).unwrap();
const STORE_BYTES: NonZeroU64 = NonZeroU64::new(4 << 30).unwrap();
const STORE_OFFLOADS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Limits of the composed component.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of a result that comes as a stream; a longer one is an error of the tool. Default: 64 MiB.
    pub result_bytes: NonZeroU64,
    /// Most bytes of the files in the directory; the oldest offloads go first. Default: 4 GiB.
    pub store_bytes: NonZeroU64,
    /// Most offloads in the directory; the oldest go first. Default: 1,000.
    pub store_offloads: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { result_bytes: RESULT_BYTES, store_bytes: STORE_BYTES, store_offloads: STORE_OFFLOADS }
    }
}

/// A value that a function of [`SETTINGS`] returns.
#[derive(Clone, Copy)]
enum Constant<'a> {
    Text(&'a str),
    Long(u64),
    Short(u32),
}

/// Puts a filter, composed with [`Files::Directory`](lro_host::compose::Files), before the tools of a component for ACT, and adds
/// the tools `lro_extract` and `lro_read`. Without `tools`, it has these alone.
///
/// `directory`, an absolute path, is where the offloads are, as `default/ID`. `settings` are those of the filter: a JSON object with the
/// keys of `docs/reference/settings.md`. Callers can change neither, nor `limits`. The component asks its host for what `tools` ask for, and for the
/// directory.
///
/// # Errors
/// [`CompositionError`].
pub fn act(
    filter: &[u8],
    tools: Option<&[u8]>,
    directory: &Path,
    settings: &str,
    limits: &Limits,
) -> Result<Vec<u8>, CompositionError> {
    let path = directory.to_str().filter(|path| path.starts_with('/') && !path.contains(['*', '?', '[', '{']));
    let path = path.ok_or_else(|| {
        CompositionError(format!(
            "{}: the directory is an absolute path without `*`, `?`, `[` and `{{`",
            directory.display()
        ))
    })?;
    let constants = constants(&[
        ("directory", Constant::Text(path)),
        ("filter", Constant::Text(settings)),
        ("result-bytes", Constant::Long(limits.result_bytes.get())),
        ("store-bytes", Constant::Long(limits.store_bytes.get())),
        ("store-offloads", Constant::Short(limits.store_offloads.get())),
    ])?;
    let tools = tools.unwrap_or(NO_TOOLS);
    let mut composition = Composition::default();
    let constants = composition.instance("lro:settings", &constants)?;
    let directory = composition.instance("lro:directory", ACT_DIRECTORY)?;
    let store = composition.instance("lro:store", STORE_DIRECTORY)?;
    let filter = composition.instance("lro:filter", filter)?;
    let reader = composition.instance("lro:reader", READER)?;
    let behind = composition.instance("lro:behind", tools)?;
    let act = composition.instance("lro:act", ACT)?;
    composition.connect(constants, directory, SETTINGS)?;
    composition.connect(directory, store, PREOPENS)?;
    composition.connect(store, filter, PREOPENS)?;
    composition.connect(store, reader, PREOPENS)?;
    composition.connect(constants, act, SETTINGS)?;
    composition.connect(filter, act, MESSAGES)?;
    composition.connect(filter, act, FILTER)?;
    composition.connect(reader, act, READING)?;
    composition.connect(store, act, STORE)?;
    composition.connect(behind, act, TOOLS)?;
    let mut composed = composition.finish(act, TOOLS)?;
    let manifest = manifest(tools, path)?;
    CustomSection { name: MANIFEST.into(), data: manifest.into() }.append_to_component(&mut composed);
    Ok(composed)
}

/// A component of functions without arguments that return these values: the interface `lro:act/settings`.
fn constants(values: &[(&str, Constant<'_>)]) -> Result<Vec<u8>, CompositionError> {
    let too_long = |_| CompositionError("the settings are longer than a component can hold".to_owned());
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    let mut exports = ExportSection::new();
    // By number: what returns an address or a short number, and a long one.
    types.ty().function([], [ValType::I32]);
    types.ty().function([], [ValType::I64]);
    exports.export("memory", ExportKind::Memory, 0);
    // The texts; each follows its address and length, in which form it is returned.
    let mut bytes: Vec<u8> = Vec::new();
    for ((name, value), index) in values.iter().zip(0..) {
        exports.export(name, ExportKind::Func, index);
        let mut body = Function::new([]);
        match value {
            Constant::Text(text) => {
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                let head = u32::try_from(bytes.len()).map_err(too_long)?;
                let length = u32::try_from(text.len()).map_err(too_long)?;
                bytes.extend([(head + 8).to_le_bytes(), length.to_le_bytes()].concat());
                bytes.extend_from_slice(text.as_bytes());
                functions.function(0);
                body.instructions().i32_const(head.cast_signed()).end();
            }
            Constant::Long(number) => {
                functions.function(1);
                body.instructions().i64_const(number.cast_signed()).end();
            }
            Constant::Short(number) => {
                functions.function(0);
                body.instructions().i32_const(number.cast_signed()).end();
            }
        }
        code.function(&body);
    }
    let (mut memories, mut data) = (MemorySection::new(), DataSection::new());
    let minimum = (bytes.len() as u64).div_ceil(PAGE_BYTES);
    memories.memory(MemoryType { minimum, maximum: None, memory64: false, shared: false, page_size_log2: None });
    data.active(0, &ConstExpr::i32_const(0), bytes);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&memories).section(&exports).section(&code).section(&data);

    let (mut instances, mut aliases) = (InstanceSection::new(), ComponentAliasSection::new());
    let (mut types, mut functions) = (ComponentTypeSection::new(), CanonicalFunctionSection::new());
    let (mut lifted, mut exports) = (ComponentInstanceSection::new(), ComponentExportSection::new());
    instances.instantiate::<[(&str, ModuleArg); 0], _>(0, []);
    aliases.alias(Alias::CoreInstanceExport { instance: 0, kind: ExportKind::Memory, name: "memory" });
    for ((name, value), index) in values.iter().zip(0..) {
        let (result, options): (_, &[CanonicalOption]) = match value {
            Constant::Text(_) => (PrimitiveValType::String, &[CanonicalOption::UTF8, CanonicalOption::Memory(0)]),
            Constant::Long(_) => (PrimitiveValType::U64, &[]),
            Constant::Short(_) => (PrimitiveValType::U32, &[]),
        };
        types.function().params::<[(&str, PrimitiveValType); 0], _>([]).result(Some(result.into()));
        aliases.alias(Alias::CoreInstanceExport { instance: 0, kind: ExportKind::Func, name });
        functions.lift(index, index, options.iter().copied());
    }
    let names: Vec<_> =
        values.iter().zip(0..).map(|((name, _), index)| (*name, ComponentExportKind::Func, index)).collect();
    lifted.export_items(names);
    exports.export(SETTINGS, ComponentExportKind::Instance, 0, None);
    let mut component = Component::new();
    component.section(&ModuleSection(&module)).section(&instances).section(&aliases).section(&types);
    component.section(&functions).section(&lifted).section(&exports);
    Ok(component.finish())
}

/// What the composed component says of itself: what `tools` say, and the directory.
fn manifest(tools: &[u8], directory: &str) -> Result<Vec<u8>, CompositionError> {
    let mut manifest: Value = match section(tools)? {
        Some(bytes) => ciborium::from_reader(bytes).map_err(|error| told(&error))?,
        None => json!({ "std": { "name": "lro", "version": env!("CARGO_PKG_VERSION") } }),
    };
    let rules = manifest
        .as_object_mut()
        .and_then(|manifest| object(manifest, "std"))
        .and_then(|table| object(table, "capabilities"))
        .and_then(|capabilities| object(capabilities, FILESYSTEM))
        .and_then(|class| class.entry("allow").or_insert_with(|| json!([])).as_array_mut())
        .ok_or_else(|| CompositionError(format!("the section `{MANIFEST}` of the component has another form")))?;
    for path in [directory.to_owned(), format!("{}/**", directory.trim_end_matches('/'))] {
        rules.push(json!({ "path": path, "mode": "rw" }));
    }
    let mut bytes = Vec::new();
    ciborium::into_writer(&manifest, &mut bytes).map_err(|error| told(&error))?;
    Ok(bytes)
}

fn object<'a>(parent: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    parent.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// The custom section of the component itself, and not of one in it.
fn section(component: &[u8]) -> Result<Option<&[u8]>, CompositionError> {
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(|error| told(&error))? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 1 && section.name() == MANIFEST => {
                return Ok(Some(section.data()));
            }
            _ => {}
        }
    }
    Ok(None)
}
