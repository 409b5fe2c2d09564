//! A core module with a counter of fuel: one more global, two functions, and one around each function that a host calls. Where
//! it answers, a tag, a global and two functions more.

use wasm_encoder::{
    CodeSection, ConstExpr, DataCountSection, Encode, ExportKind, ExportSection, Function, GlobalType, Module, NameMap,
    NameSection, RawSection, SectionId, StartSection, TagKind, TagSection, TagType, ValType,
};
use wasmparser::{ExternalKind, Import, Parser, Payload, TypeRef};

use crate::body::{self, Answering, Counter};
use crate::recovery::{Places, Recovery, TAG, dropping, is_stateless};
use crate::{BULK_SHIFT, EXHAUSTED, MeterError, Metering};

/// The types of the functions that are added, encoded: nothing in and out, and a length in and out.
const OWN_TYPES: [&[u8]; 2] = [&[0x60, 0, 0], &[0x60, 1, 0x7f, 1, 0x7f]];

/// Number of the functions that are added besides those around functions that a host calls: two, and two more where it answers.
const HELPERS: u32 = 2;
const RECOVERY_HELPERS: u32 = 2;

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
    /// Module and name of each imported function.
    imports: Vec<(&'a str, &'a str)>,
    imported_globals: u32,
    globals: u32,
    exports: Vec<(&'a str, ExternalKind, u32)>,
    has_code: bool,
}

/// A function that a host calls: its number, and that of the function around it.
struct Entry<'a> {
    /// The name of an export that it is.
    name: &'a str,
    function: u32,
    around: u32,
}

/// The module, unchanged if it has no code.
pub(crate) fn metered(wasm: &[u8], metering: &mut Metering<'_>) -> Result<Vec<u8>, MeterError> {
    let outline = Outline::of(wasm)?;
    if !outline.has_code {
        return Ok(wasm.to_vec());
    }
    let is_entered = outline.exports.iter().any(|(name, kind, _)| is_entered(name, *kind));
    metering.entered += usize::from(is_entered);
    let recovery = match (metering.answers, is_entered) {
        ([], _) => None,
        (answers, true) => {
            let (function, realloc) = (|module: &str, name: &str| outline.imported(module, name), outline.realloc());
            Some(Recovery::of(wasm, answers, function, realloc, outline.imported_globals)?)
        }
        (_, false) if is_stateless(wasm)? => None,
        (_, false) => return Err(MeterError::Answer("more than one of its modules keeps state".to_owned())),
    };
    Metered::of(wasm, &outline, metering.fuel, recovery).module()
}

/// A module while it is made.
struct Metered<'a> {
    wasm: &'a [u8],
    outline: &'a Outline<'a>,
    fuel: i64,
    entries: Vec<Entry<'a>>,
    counter: Counter,
    recovery: Option<(Recovery<'a>, Places)>,
}

impl<'a> Metered<'a> {
    fn of(wasm: &'a [u8], outline: &'a Outline<'a>, fuel: i64, recovery: Option<Recovery<'a>>) -> Self {
        let first_own = count(outline.functions.len());
        let counter = Counter { global: outline.globals, exhausted: first_own, bulk: first_own + 1 };
        let places =
            Places { reset: first_own + HELPERS, dropping: first_own + HELPERS + 1, held: outline.globals + 1 };
        let helpers = if recovery.is_some() { HELPERS + RECOVERY_HELPERS } else { HELPERS };
        let recovery = recovery.map(|recovery| (recovery, places));
        Self { wasm, outline, fuel, entries: outline.entries(helpers), counter, recovery }
    }

    fn module(&self) -> Result<Vec<u8>, MeterError> {
        let (mut module, mut has_globals, mut has_start) = (Module::new(), false, false);
        for payload in Parser::new(0).parse_all(self.wasm) {
            let payload = payload?;
            let Some((id, range)) = payload.as_section() else { continue };
            let data = self.wasm.get(range).unwrap_or_default();
            let is_after = |sections: &[SectionId]| {
                id != SectionId::Custom as u8 && sections.iter().all(|before| id != *before as u8)
            };
            if !has_globals && is_after(&BEFORE_GLOBALS) {
                let old = if id == SectionId::Global as u8 { data } else { &[0] };
                self.globals(&mut module, old)?;
                has_globals = true;
            }
            if !has_start && is_after(&BEFORE_GLOBALS) && is_after(&[SectionId::Global, SectionId::Export]) {
                if let Some((_, places)) = &self.recovery {
                    module.section(&StartSection { function_index: places.reset });
                }
                has_start = true;
            }
            match &payload {
                Payload::TypeSection(_) => append(&mut module, SectionId::Type, data, &OWN_TYPES)?,
                Payload::FunctionSection(_) => {
                    append(&mut module, SectionId::Function, data, &encoded(&self.own_types()))?;
                }
                Payload::GlobalSection(_) => {}
                Payload::ExportSection(_) => _ = module.section(&self.outline.exports(&self.entries)),
                // It would name other functions.
                Payload::CustomSection(custom) if custom.name() == "name" => {}
                Payload::DataCountSection { .. } if self.recovery.is_some() => {}
                Payload::DataSection(_) if self.recovery.is_some() => {}
                Payload::CodeSectionStart { .. } => {
                    if let Some((recovery, _)) = &self.recovery {
                        module.section(&DataCountSection { count: recovery.data_count() });
                    }
                    module.section(&self.code()?);
                    if let Some((recovery, _)) = &self.recovery {
                        module.section(&recovery.data());
                    }
                }
                Payload::CodeSectionEntry(_) => {}
                _ => _ = module.section(&RawSection { id, data }),
            }
        }
        let mut names = NameMap::new();
        names.append(self.counter.exhausted, EXHAUSTED);
        let mut section = NameSection::new();
        section.functions(&names);
        module.section(&section);
        Ok(module.finish())
    }

    /// The tag, where it answers, and all globals.
    fn globals(&self, module: &mut Module, old: &[u8]) -> Result<(), MeterError> {
        let mut own = vec![global(ValType::I64, &ConstExpr::i64_const(self.fuel))];
        if self.recovery.is_some() {
            let mut tags = TagSection::new();
            tags.tag(TagType { kind: TagKind::Exception, func_type_idx: self.own_type(0) });
            module.section(&tags);
            own.push(global(ValType::I32, &ConstExpr::i32_const(0)));
        }
        append(module, SectionId::Global, old, &own)
    }

    /// The number of one of [`OWN_TYPES`].
    fn own_type(&self, number: u32) -> u32 {
        count(self.outline.types.len()) + number
    }

    /// The types of the functions that are added.
    fn own_types(&self) -> Vec<u32> {
        let mut types = vec![self.own_type(0), self.own_type(1)];
        if self.recovery.is_some() {
            types.extend([self.own_type(0), self.own_type(1)]);
        }
        let around = |entry: &Entry<'_>| self.outline.functions.get(entry.function as usize).copied();
        types.extend(self.entries.iter().filter_map(around));
        types
    }

    /// All functions, and those that are added.
    fn code(&self) -> Result<CodeSection, MeterError> {
        let counter = self.counter;
        let answering = self.recovery.as_ref().map_or_else(Answering::default, |(recovery, places)| Answering {
            throws: true,
            drops: recovery.drops().collect(),
            dropping: places.dropping,
        });
        let mut code = CodeSection::new();
        for payload in Parser::new(0).parse_all(self.wasm) {
            if let Payload::CodeSectionEntry(body) = payload? {
                code.raw(&body::metered(&body, counter, &answering)?);
            }
        }
        let mut exhausted = Function::new([]);
        match answering.throws {
            true => exhausted.instructions().throw(TAG).end(),
            false => exhausted.instructions().unreachable().end(),
        };
        code.function(&exhausted);

        let mut bulk = Function::new([]);
        let mut sink = bulk.instructions();
        sink.global_get(counter.global).local_get(0).i64_extend_i32_u().i64_const(i64::from(BULK_SHIFT)).i64_shr_u();
        sink.i64_sub().global_set(counter.global);
        counter.check(&mut sink);
        sink.local_get(0).end();
        code.function(&bulk);

        if let Some((recovery, places)) = &self.recovery {
            code.function(&recovery.reset());
            code.function(&dropping(*places));
        }
        for entry in &self.entries {
            let answers = self.recovery.as_ref().and_then(|(recovery, places)| {
                recovery.around(entry.name, entry.function, self.fuel, counter, *places)
            });
            code.function(&answers.unwrap_or_else(|| self.around(entry)));
        }
        Ok(code)
    }

    /// The function around one that a host calls, which gives it all of the fuel.
    fn around(&self, entry: &Entry<'_>) -> Function {
        let mut around = Function::new([]);
        let mut sink = around.instructions();
        sink.i64_const(self.fuel).global_set(self.counter.global);
        for parameter in 0..count(self.outline.parameters(entry.function)) {
            sink.local_get(parameter);
        }
        sink.call(entry.function).end();
        around
    }
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
                        outline.import(&import?)?;
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

    fn import(&mut self, import: &Import<'a>) -> Result<(), MeterError> {
        match import.ty {
            TypeRef::Func(kind) | TypeRef::FuncExact(kind) => {
                self.functions.push(kind);
                self.imports.push((import.module, import.name));
                self.imported_functions += 1;
            }
            TypeRef::Global(_) => {
                self.globals += 1;
                self.imported_globals += 1;
            }
            TypeRef::Memory(memory) => narrow(memory.memory64)?,
            TypeRef::Table(table) => narrow(table.table64)?,
            TypeRef::Tag(_) => {}
        }
        Ok(())
    }

    /// The number of an imported function.
    fn imported(&self, module: &str, name: &str) -> Option<u32> {
        self.imports.iter().position(|import| *import == (module, name)).map(count)
    }

    /// The function that gives room for what a host passes.
    fn realloc(&self) -> Option<u32> {
        let mut found = self.exports.iter().filter(|(name, _, _)| *name == "cabi_realloc");
        found.next().map(|(_, _, function)| *function)
    }

    /// The functions that a host calls: those of interfaces, but not what cleans up after them. Behind so many own functions.
    fn entries(&self, helpers: u32) -> Vec<Entry<'a>> {
        let entered = self
            .exports
            .iter()
            .filter(|(name, kind, function)| is_entered(name, *kind) && *function >= self.imported_functions);
        let mut functions: Vec<(u32, &str)> = entered.map(|(name, _, function)| (*function, *name)).collect();
        functions.sort_unstable();
        functions.dedup_by_key(|(function, _)| *function);
        let first = count(self.functions.len()) + helpers;
        functions.into_iter().zip(first..).map(|((function, name), around)| Entry { name, function, around }).collect()
    }

    /// The exports, with the function around each function that a host calls in its place.
    fn exports(&self, entries: &[Entry<'_>]) -> ExportSection {
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

/// A global that changes, encoded.
fn global(val_type: ValType, first: &ConstExpr) -> Vec<u8> {
    let mut bytes = Vec::new();
    GlobalType { val_type, mutable: true, shared: false }.encode(&mut bytes);
    first.encode(&mut bytes);
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
pub(crate) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
