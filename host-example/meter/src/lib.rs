//! Bounds WebAssembly by instructions that count: a component that loops ends in a trap, in any runtime, without an epoch or fuel
//! of the runtime.
//!
//! Each of its modules gets a counter of fuel, from which every stretch of instructions without a branch takes their number; an
//! instruction that moves many bytes or elements takes more, see [`BULK_SHIFT`]. Functions and rounds of loops look at the
//! counter when they begin: below zero, the function [`EXHAUSTED`] traps, whose name is in the stack trace. Each call of a
//! function of an interface begins with all of the fuel.
//!
//! ```
//! let module = wasm_encoder::Module::new().finish();
//! let fuel = std::num::NonZeroU64::new(1_000_000).unwrap_or(std::num::NonZeroU64::MIN);
//! assert_eq!(lro_meter::metered(&module, fuel)?, module, "nothing to count");
//! # Ok::<(), lro_meter::MeterError>(())
//! ```
//!
//! A trap ends all components that are composed with the one that traps. Where that is too much, [`answering`] makes the functions
//! of a component answer with an error instead.

mod answer;
mod body;
mod module;
mod recovery;

use std::num::NonZeroU64;

use wasm_encoder::{Component, ComponentSectionId, RawSection};
use wasmparser::{BinaryReaderError, Chunk, Encoding, Parser, Payload, Validator, WasmFeatures};

use crate::answer::Answer;

/// Name of the function that traps when the fuel is used up, as stack traces show it.
pub const EXHAUSTED: &str = "lro_fuel_exhausted";

/// An instruction that moves so many bytes or elements, `2^BULK_SHIFT`, takes one unit of fuel more.
pub const BULK_SHIFT: u32 = 4;

/// Most levels of components in components.
const LEVELS_MAX: usize = 32;

/// Why a component cannot be metered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// Not WebAssembly, or not valid.
    #[error("not valid WebAssembly")]
    Invalid(#[from] BinaryReaderError),
    /// A memory or a table with addresses of 64 bits.
    #[error("it has a memory or a table with addresses of 64 bits, whose fuel cannot be counted")]
    Wide,
    /// Two modules that a host calls: each could give the other new fuel.
    #[error("two of its modules export functions of interfaces: only one counter can begin anew with a call")]
    Modules,
    /// Components in components in components …
    #[error("it has components nested in more than {LEVELS_MAX} levels")]
    Levels,
    /// It can only trap, not answer: [`answering`].
    #[error("it cannot answer where it would trap: {0}")]
    Answer(String),
}

/// Errors that a function answers where it would trap.
#[derive(Clone, Copy, Debug)]
pub struct Endings<'a> {
    /// When the fuel is used up.
    pub exhausted: Ending<'a>,
    /// When it executes the instruction `unreachable`, as a program in Rust does when it panics.
    pub unreachable: Ending<'a>,
}

/// An error: a case with a string of the variant that the error of the function is.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// The name of the case.
    pub case: &'a str,
    /// The string.
    pub text: &'a str,
}

/// The component, or the core module, with counters of so much fuel. Names of its functions are dropped.
///
/// # Errors
/// [`MeterError`].
pub fn metered(wasm: &[u8], fuel: NonZeroU64) -> Result<Vec<u8>, MeterError> {
    metered_with(wasm, fuel, &[])
}

/// The same of a component, with functions that answer an error where they would trap because the fuel is used up, or at the
/// instruction `unreachable`. Functions without such errors, and other traps, stay what they are.
///
/// Such a call leaves nothing behind: the module begins anew with its first memory and globals. The memory keeps its size, and
/// handles that the module owned stay open. That needs a runtime with the exceptions of WebAssembly 3.0, functions whose
/// parameters, with one borrowed handle among them, and results are passed in memory, and a component with one module that keeps
/// state.
///
/// # Errors
/// [`MeterError::Answer`] for a component that can only trap; [`MeterError`].
pub fn answering(component: &[u8], fuel: NonZeroU64, endings: &Endings<'_>) -> Result<Vec<u8>, MeterError> {
    metered_with(component, fuel, &answer::answers(component, endings)?)
}

fn metered_with(wasm: &[u8], fuel: NonZeroU64, answers: &[Answer]) -> Result<Vec<u8>, MeterError> {
    let fuel = i64::try_from(fuel.get()).unwrap_or(i64::MAX);
    Validator::new_with_features(WasmFeatures::all()).validate_all(wasm)?;
    let mut metering = Metering { fuel, answers, entered: 0 };
    let metered = part(wasm, &mut metering, 0)?;
    if metering.entered > 1 {
        return Err(MeterError::Modules);
    }
    Validator::new_with_features(WasmFeatures::all()).validate_all(&metered)?;
    Ok(metered)
}

/// What all parts of a component get.
struct Metering<'a> {
    fuel: i64,
    /// What functions answer; without any, they trap.
    answers: &'a [Answer],
    /// Number of the modules so far that a host calls.
    entered: usize,
}

/// A component or a module.
fn part(wasm: &[u8], metering: &mut Metering<'_>, level: usize) -> Result<Vec<u8>, MeterError> {
    if level > LEVELS_MAX {
        return Err(MeterError::Levels);
    }
    let (mut parser, mut rest, mut component) = (Parser::new(0), wasm, Component::new());
    loop {
        let (size, payload) = match parser.parse(rest, true)? {
            Chunk::Parsed { consumed, payload } => (consumed, payload),
            // With all of the bytes there, the parser asks for no more.
            Chunk::NeedMoreData(_) => return Ok(component.finish()),
        };
        rest = rest.get(size..).unwrap_or_default();
        match &payload {
            Payload::Version { encoding: Encoding::Module, .. } => return module::metered(wasm, metering),
            Payload::End(_) => return Ok(component.finish()),
            Payload::ModuleSection { unchecked_range, .. } | Payload::ComponentSection { unchecked_range, .. } => {
                let id = match &payload {
                    Payload::ModuleSection { .. } => ComponentSectionId::CoreModule,
                    _ => ComponentSectionId::Component,
                };
                let inside = rest.get(..unchecked_range.len()).unwrap_or_default();
                rest = rest.get(unchecked_range.len()..).unwrap_or_default();
                component.section(&RawSection { id: id.into(), data: &part(inside, metering, level + 1)? });
            }
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    component.section(&RawSection { id, data: wasm.get(range).unwrap_or_default() });
                }
            }
        }
    }
}
