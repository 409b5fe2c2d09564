//! The body of a function with instructions that count. Its own instructions stay as they are, byte for byte.

use wasm_encoder::{BlockType, InstructionSink};
use wasmparser::{FunctionBody, Operator};

use crate::MeterError;
use crate::recovery::TAG;

/// Where a module counts.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    /// The global with the fuel that is left.
    pub(crate) global: u32,
    /// The function that traps.
    pub(crate) exhausted: u32,
    /// The function that takes a length off the fuel, and returns it.
    pub(crate) bulk: u32,
}

/// What bodies do where functions answer.
#[derive(Clone, Default)]
pub(crate) struct Answering {
    /// Whether the instruction `unreachable` throws.
    pub(crate) throws: bool,
    /// Functions that drop a handle, and the one that is told which.
    pub(crate) drops: Vec<u32>,
    pub(crate) dropping: u32,
}

impl Counter {
    /// Takes a number of instructions off the fuel.
    fn take(self, sink: &mut InstructionSink<'_>, instructions: i64) {
        sink.global_get(self.global).i64_const(instructions).i64_sub().global_set(self.global);
    }

    /// Traps if no fuel is left.
    pub(crate) fn check(self, sink: &mut InstructionSink<'_>) {
        sink.global_get(self.global).i64_const(0).i64_lt_s();
        sink.if_(BlockType::Empty).call(self.exhausted).end();
    }
}

/// What is put in front of an instruction.
enum Insertion {
    /// What the instructions up to the next branch or the end of a block take, and whether the fuel is looked at.
    Segment { instructions: i64, is_checked: bool },
    /// The length on the stack.
    Length,
    /// The handle on the stack, which is dropped.
    Dropping,
    /// What is thrown.
    Throw,
}

/// The body, as an entry of a code section without its size.
pub(crate) fn metered(body: &FunctionBody<'_>, counter: Counter, answering: &Answering) -> Result<Vec<u8>, MeterError> {
    let mut operators = body.get_operators_reader()?;
    let (start, bytes) = (body.range().start, body.as_bytes());
    let segment = |is_checked| Insertion::Segment { instructions: 0, is_checked };
    let mut insertions = vec![(operators.original_position(), segment(true))];
    let mut current = 0;
    while !operators.eof() {
        let (operator, position) = operators.read_with_offset()?;
        if has_length(&operator) {
            insertions.push((position, Insertion::Length));
        }
        match &operator {
            Operator::Unreachable if answering.throws => insertions.push((position, Insertion::Throw)),
            Operator::Call { function_index } if answering.drops.contains(function_index) => {
                insertions.push((position, Insertion::Dropping));
            }
            _ => {}
        }
        if let Some((_, Insertion::Segment { instructions, .. })) = insertions.get_mut(current) {
            *instructions += 1;
        }
        if ends_segment(&operator) {
            current = insertions.len();
            insertions.push((operators.original_position(), segment(matches!(operator, Operator::Loop { .. }))));
        }
    }
    let mut metered = Vec::with_capacity(bytes.len() * 2);
    let mut at = start;
    for (position, insertion) in insertions {
        metered.extend_from_slice(bytes.get(at - start..position - start).unwrap_or_default());
        at = position;
        let mut sink = InstructionSink::new(&mut metered);
        match insertion {
            // Nothing follows, or only what ends a block.
            Insertion::Segment { instructions: 0 | 1, is_checked: false } => {}
            Insertion::Segment { instructions, is_checked } => {
                counter.take(&mut sink, instructions);
                if is_checked {
                    counter.check(&mut sink);
                }
            }
            Insertion::Length => _ = sink.call(counter.bulk),
            Insertion::Dropping => _ = sink.call(answering.dropping),
            Insertion::Throw => _ = sink.throw(TAG),
        }
    }
    metered.extend_from_slice(bytes.get(at - start..).unwrap_or_default());
    Ok(metered)
}

/// Whether what follows an instruction may be executed without it, or not be executed after it.
fn ends_segment(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. }
            | Operator::BrOnCast { .. }
            | Operator::BrOnCastFail { .. }
            | Operator::Return
            | Operator::Unreachable
            | Operator::Catch { .. }
            | Operator::CatchAll
            | Operator::Delegate { .. }
    )
}

/// Whether the last operand of an instruction says how many bytes or elements it moves.
fn has_length(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::TableCopy { .. }
            | Operator::TableFill { .. }
            | Operator::TableInit { .. }
            | Operator::ArrayCopy { .. }
            | Operator::ArrayFill { .. }
            | Operator::ArrayInitData { .. }
            | Operator::ArrayInitElem { .. }
            | Operator::ArrayNew { .. }
            | Operator::ArrayNewDefault { .. }
            | Operator::ArrayNewData { .. }
            | Operator::ArrayNewElem { .. }
    )
}
