//! A core module with a counter of fuel: one more global, two functions, and one around each function that a host calls.

use wasm_encoder::{
    CodeSection, ConstExpr, Encode, ExportKind, ExportSection, Function, GlobalType, Module, NameMap, NameSection,
    RawSection, SectionId, ValType,
};
use wasmparser::{ExternalKind, Parser, Payload, TypeRef};

use crate::body::{self, Counter};
use crate::{BULK_SHIFT, EXHAUSTED, MeterError};

/// The types of the functions that are added, encoded: nothing in and out, and a length in and out.
const OWN_TYPES: [&[u8]; 2] = [&[0x60, 0, 0], &[0x60, 1, 0x7f, 1, 0x7f]];

/// Number of the functions that are added besides those around functions that a host calls.
const HELPERS: u32 = 2;

/// Sections that come before the globals.
const BEFORE_GLOBALS: [SectionId; 6] =
    [SectionId::Type, SectionId::Import, SectionId::Function, SectionId::Table, SectionId::Memory, SectionId::Tag];

/// What a module has.
#[derive(Default)]
struct Outline<'a> {
    /// Types in all groups, and the number of parameters of each; `None` for those that are not of functions.
    types: Vec<Option<usize>>,
    /// The type of each function, imported ones first.
    functions: Vec<u32>,
    imported_functions: u32,
    globals: u32,
    exports: Vec<(&'a str, ExternalKind, u32)>,
    has_code: bool,
}

/// A function that a host calls: its number, and that of the function around it.
struct Entry {
    function: u32,
    around: u32,
}

/// The module, unchanged if it has no code.
pub(crate) fn metered(wasm: &[u8], fuel: i64, entered: &mut usize) -> Result<Vec<u8>, MeterError> {
    let outline = Outline::of(wasm)?;
    if !outline.has_code {
        return Ok(wasm.to_vec());
    }
    let entries = outline.entries();
    *entered += usize::from(!entries.is_empty());
    let first_own = count(outline.functions.len());
    let counter = Counter { global: outline.globals, exhausted: first_own, bulk: first_own + 1 };
    let types = count(outline.types.len());
    let (mut module, mut has_globals) = (Module::new(), false);
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else { continue };
        let data = wasm.get(range).unwrap_or_default();
        if !has_globals && id != SectionId::Custom as u8 && BEFORE_GLOBALS.iter().all(|before| id != *before as u8) {
            let old = if id == SectionId::Global as u8 { data } else { &[0] };
            append(&mut module, SectionId::Global, old, &[global(fuel)])?;
            has_globals = true;
        }
        match &payload {
            Payload::TypeSection(_) => append(&mut module, SectionId::Type, data, &OWN_TYPES)?,
            Payload::FunctionSection(_) => {
                let around = entries.iter().filter_map(|entry| outline.functions.get(entry.function as usize).copied());
                let own: Vec<u32> = [types, types + 1].into_iter().chain(around).collect();
                append(&mut module, SectionId::Function, data, &encoded(&own))?;
            }
            Payload::GlobalSection(_) => {}
            Payload::ExportSection(_) => _ = module.section(&outline.exports(&entries)),
            // It would name other functions.
            Payload::CustomSection(custom) if custom.name() == "name" => {}
            Payload::CodeSectionStart { .. } => {
                let code = code(wasm, &outline, &entries, counter, fuel)?;
                module.section(&code);
            }
            Payload::CodeSectionEntry(_) => {}
            _ => _ = module.section(&RawSection { id, data }),
        }
    }
    let mut names = NameMap::new();
    names.append(counter.exhausted, EXHAUSTED);
    let mut section = NameSection::new();
    section.functions(&names);
    module.section(&section);
    Ok(module.finish())
}

impl<'a> Outline<'a> {
    fn of(wasm: &'a [u8]) -> Result<Self, MeterError> {
        let mut outline = Self::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(groups) => {
                    for group in groups {
                        let group = group?;
                        let parameters = |kind: &wasmparser::SubType| match &kind.composite_type.inner {
                            wasmparser::CompositeInnerType::Func(function) => Some(function.params().len()),
                            _ => None,
                        };
                        outline.types.extend(group.types().map(parameters));
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        outline.import(import?.ty)?;
                    }
                }
                Payload::FunctionSection(functions) => {
                    for kind in functions {
                        outline.functions.push(kind?);
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        narrow(table?.ty.table64)?;
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        narrow(memory?.memory64)?;
                    }
                }
                Payload::GlobalSection(globals) => outline.globals += globals.count(),
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        outline.exports.push((export.name, export.kind, export.index));
                    }
                }
                Payload::CodeSectionStart { .. } => outline.has_code = true,
                _ => {}
            }
        }
        Ok(outline)
    }

    fn import(&mut self, kind: TypeRef) -> Result<(), MeterError> {
        match kind {
            TypeRef::Func(kind) | TypeRef::FuncExact(kind) => {
                self.functions.push(kind);
                self.imported_functions += 1;
            }
            TypeRef::Global(_) => self.globals += 1,
            TypeRef::Memory(memory) => narrow(memory.memory64)?,
            TypeRef::Table(table) => narrow(table.table64)?,
            TypeRef::Tag(_) => {}
        }
        Ok(())
    }

    /// The functions that a host calls: those of interfaces, but not what cleans up after them.
    fn entries(&self) -> Vec<Entry> {
        let entered = self
            .exports
            .iter()
            .filter(|(name, kind, function)| is_entered(name, *kind) && *function >= self.imported_functions);
        let mut functions: Vec<u32> = entered.map(|(_, _, function)| *function).collect();
        functions.sort_unstable();
        functions.dedup();
        let first = count(self.functions.len()) + HELPERS;
        functions.into_iter().zip(first..).map(|(function, around)| Entry { function, around }).collect()
    }

    /// The exports, with the function around each function that a host calls in its place.
    fn exports(&self, entries: &[Entry]) -> ExportSection {
        let mut section = ExportSection::new();
        for (name, kind, index) in &self.exports {
            let entry = entries.iter().find(|entry| is_entered(name, *kind) && entry.function == *index);
            let kind = match kind {
                ExternalKind::Func | ExternalKind::FuncExact => ExportKind::Func,
                ExternalKind::Table => ExportKind::Table,
                ExternalKind::Memory => ExportKind::Memory,
                ExternalKind::Global => ExportKind::Global,
                ExternalKind::Tag => ExportKind::Tag,
            };
            section.export(name, kind, entry.map_or(*index, |entry| entry.around));
        }
        section
    }

    fn parameters(&self, function: u32) -> usize {
        let kind = self.functions.get(function as usize).copied().unwrap_or_default();
        self.types.get(kind as usize).copied().flatten().unwrap_or_default()
    }
}

/// Whether an export is a function of an interface, `INTERFACE#FUNCTION`, and not what frees its results.
fn is_entered(name: &str, kind: ExternalKind) -> bool {
    kind == ExternalKind::Func && name.contains('#') && !name.starts_with("cabi_post_")
}

/// All functions, and those that are added.
fn code(
    wasm: &[u8],
    outline: &Outline<'_>,
    entries: &[Entry],
    counter: Counter,
    fuel: i64,
) -> Result<CodeSection, MeterError> {
    let mut code = CodeSection::new();
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::CodeSectionEntry(body) = payload? {
            code.raw(&body::metered(&body, counter)?);
        }
    }
    let mut exhausted = Function::new([]);
    exhausted.instructions().unreachable().end();
    code.function(&exhausted);

    let mut bulk = Function::new([]);
    let mut sink = bulk.instructions();
    sink.global_get(counter.global).local_get(0).i64_extend_i32_u().i64_const(i64::from(BULK_SHIFT)).i64_shr_u();
    sink.i64_sub().global_set(counter.global);
    counter.check(&mut sink);
    sink.local_get(0).end();
    code.function(&bulk);

    for entry in entries {
        let mut around = Function::new([]);
        let mut sink = around.instructions();
        sink.i64_const(fuel).global_set(counter.global);
        for parameter in 0..count(outline.parameters(entry.function)) {
            sink.local_get(parameter);
        }
        sink.call(entry.function).end();
        code.function(&around);
    }
    Ok(code)
}

/// The counter, encoded.
fn global(fuel: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    GlobalType { val_type: ValType::I64, mutable: true, shared: false }.encode(&mut bytes);
    ConstExpr::i64_const(fuel).encode(&mut bytes);
    bytes
}

fn encoded(numbers: &[u32]) -> Vec<Vec<u8>> {
    let one = |number: &u32| {
        let mut bytes = Vec::new();
        number.encode(&mut bytes);
        bytes
    };
    numbers.iter().map(one).collect()
}

/// Adds a section of entries with more of them at its end.
fn append(module: &mut Module, id: SectionId, old: &[u8], entries: &[impl AsRef<[u8]>]) -> Result<(), MeterError> {
    let mut reader = wasmparser::BinaryReader::new(old, 0);
    let old_count = reader.read_var_u32()?;
    let mut data = Vec::with_capacity(old.len() + 16);
    (old_count + count(entries.len())).encode(&mut data);
    data.extend_from_slice(old.get(reader.current_position()..).unwrap_or_default());
    entries.iter().for_each(|entry| data.extend_from_slice(entry.as_ref()));
    module.section(&RawSection { id: id as u8, data: &data });
    Ok(())
}

fn narrow(is_wide: bool) -> Result<(), MeterError> {
    if is_wide { Err(MeterError::Wide) } else { Ok(()) }
}

/// A number of things in a module, of which the format has no more than 2^32.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
