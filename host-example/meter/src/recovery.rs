//! A module that answers an error where it would trap: what would trap throws, the function around each that a host calls
//! catches, drops the handle that the call borrowed, and gives the module the memory and the globals with which it began.

use wasm_encoder::{BlockType, Catch, DataSection, Function, InstructionSink, MemArg, ValType};
use wasmparser::{ConstExpr, DataKind, Operator, Parser, Payload, TypeRef};

use crate::MeterError;
use crate::answer::{Answer, Failed};
use crate::body::Counter;
use crate::module::count;

/// What a module needs to begin anew, and to answer.
pub(crate) struct Recovery<'a> {
    /// What memory began with: where, and what.
    segments: Vec<(i32, &'a [u8])>,
    /// Globals that change, and their first values.
    globals: Vec<(u32, Operator<'a>)>,
    realloc: u32,
    answers: Vec<(&'a Answer, u32)>,
}

/// What is thrown: the only tag of a module that answers.
pub(crate) const TAG: u32 = 0;

/// Where the instructions of a module find what is added to it.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    /// The function that makes the module begin anew.
    pub(crate) reset: u32,
    /// The function that is told each handle before it is dropped.
    pub(crate) dropping: u32,
    /// The global with the handle that the call borrowed, while it is not dropped.
    pub(crate) held: u32,
}

/// A module that keeps something that cannot be given back.
fn refused(reason: &str) -> MeterError {
    MeterError::Answer(reason.to_owned())
}

/// Whether a module keeps nothing between two calls.
pub(crate) fn is_stateless(wasm: &[u8]) -> Result<bool, MeterError> {
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::MemorySection(memories) if memories.count() > 0 => return Ok(false),
            Payload::GlobalSection(globals) => {
                for global in globals {
                    if global?.ty.mutable {
                        return Ok(false);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(true)
}

impl<'a> Recovery<'a> {
    /// `functions` are the numbers of imported functions by module and name.
    pub(crate) fn of(
        wasm: &'a [u8],
        answers: &'a [Answer],
        function: impl Fn(&str, &str) -> Option<u32>,
        realloc: Option<u32>,
        imported_globals: u32,
    ) -> Result<Self, MeterError> {
        let realloc = realloc.ok_or_else(|| refused("its module exports no function `cabi_realloc`"))?;
        let dropped = |answer: &'a Answer| {
            let drop = function(&answer.drop.0, &answer.drop.1);
            Ok((answer, drop.ok_or_else(|| refused("its module does not drop what it borrows"))?))
        };
        let answers = answers.iter().map(dropped).collect::<Result<_, MeterError>>()?;
        let mut recovery = Self { segments: Vec::new(), globals: Vec::new(), realloc, answers };
        let mut memories = 0;
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        match import?.ty {
                            TypeRef::Global(global) if !global.mutable => {}
                            TypeRef::Func(_) | TypeRef::FuncExact(_) => {}
                            _ => return Err(refused("its module imports memory or other state")),
                        }
                    }
                }
                Payload::MemorySection(section) => memories = section.count(),
                Payload::TagSection(_) => return Err(refused("its module already uses exceptions")),
                Payload::StartSection { .. } => return Err(refused("its module has a start function")),
                Payload::GlobalSection(globals) => {
                    for (number, global) in (imported_globals..).zip(globals) {
                        let global = global?;
                        if global.ty.mutable {
                            recovery.globals.push((number, constant(&global.init_expr)?));
                        }
                    }
                }
                Payload::DataSection(segments) => {
                    for segment in segments {
                        let segment = segment?;
                        let DataKind::Active { memory_index: 0, offset_expr } = &segment.kind else {
                            return Err(refused("its module has data that it puts into memory itself"));
                        };
                        let Operator::I32Const { value } = constant(offset_expr)? else {
                            return Err(refused("its module has data at places that only a host knows"));
                        };
                        recovery.segments.push((value, segment.data));
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        if keeps_elsewhere(&operator?) {
                            return Err(refused("its module changes a table"));
                        }
                    }
                }
                _ => {}
            }
        }
        if memories == 1 { Ok(recovery) } else { Err(refused("its module does not have one memory")) }
    }

    /// The data segments: those of the module, which [`Recovery::reset`] puts into memory, then those of answers.
    pub(crate) fn data(&self) -> DataSection {
        let mut section = DataSection::new();
        for (_, data) in &self.segments {
            section.passive(data.iter().copied());
        }
        for (answer, _) in &self.answers {
            for failed in [&answer.exhausted, &answer.unreachable] {
                section.passive(failed.result.iter().copied()).passive(failed.text.iter().copied());
            }
        }
        section
    }

    pub(crate) fn data_count(&self) -> u32 {
        count(self.segments.len() + 4 * self.answers.len())
    }

    /// The functions that drop a handle of a call.
    pub(crate) fn drops(&self) -> impl Iterator<Item = u32> {
        self.answers.iter().map(|(_, drop)| *drop)
    }

    /// The function that gives the module the memory and the globals with which it began. Memory does not become smaller.
    pub(crate) fn reset(&self) -> Function {
        let mut function = Function::new([]);
        let mut sink = function.instructions();
        // In two parts, as the length of a memory of 4 GiB does not fit into 32 bits.
        let last_page =
            |sink: &mut InstructionSink<'_>| _ = sink.memory_size(0).i32_const(1).i32_sub().i32_const(16).i32_shl();
        sink.memory_size(0).if_(BlockType::Empty);
        sink.i32_const(0).i32_const(0);
        last_page(&mut sink);
        sink.memory_fill(0);
        last_page(&mut sink);
        sink.i32_const(0).i32_const(1 << 16).memory_fill(0).end();
        for (number, (at, data)) in (0..).zip(&self.segments) {
            sink.i32_const(*at).i32_const(0).i32_const(length(data)).memory_init(0, number);
        }
        for (global, first) in &self.globals {
            match first {
                Operator::I32Const { value } => sink.i32_const(*value),
                Operator::I64Const { value } => sink.i64_const(*value),
                Operator::F32Const { value } => sink.f32_const(f32::from_bits(value.bits()).into()),
                Operator::F64Const { value } => sink.f64_const(f64::from_bits(value.bits()).into()),
                _ => continue,
            }
            .global_set(*global);
        }
        sink.end();
        function
    }

    /// The function around one that a host calls, whose parameters and result are in memory. `None` if it has no answer.
    pub(crate) fn around(
        &self,
        export: &str,
        function: u32,
        fuel: i64,
        counter: Counter,
        places: Places,
    ) -> Option<Function> {
        const RESULT: u32 = 1;
        const TEXT: u32 = 2;
        const IS_EXHAUSTED: u32 = 3;
        let number = self.answers.iter().position(|(answer, _)| answer.export == export)?;
        let (answer, drop) = self.answers.get(number)?;
        let mut around = Function::new([(3, ValType::I32)]);
        let mut sink = around.instructions();
        let refuel = |sink: &mut InstructionSink<'_>| _ = sink.i64_const(fuel).global_set(counter.global);
        sink.local_get(0).i32_load(word(answer.handle_at)).global_set(places.held);
        sink.block(BlockType::Empty);
        sink.try_table(BlockType::Empty, [Catch::One { tag: TAG, label: 0 }]);
        refuel(&mut sink);
        sink.local_get(0).call(function).return_().end().end();

        sink.global_get(places.held).if_(BlockType::Empty).global_get(places.held).call(*drop).end();
        sink.global_get(counter.global).i64_const(0).i64_lt_s().local_set(IS_EXHAUSTED);
        sink.call(places.reset);
        refuel(&mut sink);
        let first = count(self.segments.len() + 4 * number);
        let write = |sink: &mut InstructionSink<'_>, failed: &Failed, segment: u32| {
            let allocate = |sink: &mut InstructionSink<'_>, align: u32, data: &[u8], segment: u32, local: u32| {
                sink.i32_const(0).i32_const(0).i32_const(align.cast_signed()).i32_const(length(data));
                sink.call(self.realloc).local_tee(local).i32_const(0).i32_const(length(data)).memory_init(0, segment);
            };
            allocate(sink, answer.align, &failed.result, segment, RESULT);
            allocate(sink, 1, &failed.text, segment + 1, TEXT);
            sink.local_get(RESULT).local_get(TEXT).i32_store(word(failed.text_at));
            sink.local_get(RESULT).i32_const(length(&failed.text)).i32_store(word(failed.text_at + 4));
        };
        sink.local_get(IS_EXHAUSTED).if_(BlockType::Empty);
        write(&mut sink, &answer.exhausted, first);
        sink.else_();
        write(&mut sink, &answer.unreachable, first + 2);
        sink.end();
        sink.local_get(RESULT).end();
        Some(around)
    }
}

/// The function that is told each handle before it is dropped, and returns it.
pub(crate) fn dropping(places: Places) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    sink.local_get(0).global_get(places.held).i32_eq().if_(BlockType::Empty);
    sink.i32_const(0).global_set(places.held).end();
    sink.local_get(0).end();
    function
}

/// The constant that an expression is.
fn constant<'a>(expression: &ConstExpr<'a>) -> Result<Operator<'a>, MeterError> {
    let mut operators = expression.get_operators_reader();
    match (operators.read()?, operators.read()?) {
        (
            operator @ (Operator::I32Const { .. }
            | Operator::I64Const { .. }
            | Operator::F32Const { .. }
            | Operator::F64Const { .. }),
            Operator::End,
        ) => Ok(operator),
        _ => Err(refused("its module has a global that begins with what only a host knows")),
    }
}

/// Whether an instruction changes something besides memory and globals that lasts.
fn keeps_elsewhere(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
            | Operator::ElemDrop { .. }
            | Operator::DataDrop { .. }
            | Operator::MemoryInit { .. }
    )
}

/// A word of 32 bits at an offset.
fn word(offset: u32) -> MemArg {
    MemArg { offset: offset.into(), align: 2, memory_index: 0 }
}

fn length(data: &[u8]) -> i32 {
    count(data.len()).cast_signed()
}
