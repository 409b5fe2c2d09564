//! What a component says it needs and offers, read from its bytes before anything is compiled.

use super::PolicyError;
use semver::{Comparator, Op, Version};
use wasmparser::{Encoding, Parser, Payload};

/// Newest version of the package `lro:filter` this host runs; older ones that it is compatible with run too.
pub const VERSION: Version = Version::new(0, 1, 0);

/// A world, told by what its components export.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    /// The exported interface, without its version.
    export: &'static str,
}

/// The world a policy is built for.
pub const WORLD: &str = "lro-policy";

pub(crate) const POLICY: World = World { name: WORLD, export: "lro:filter/lro-filter" };

/// The world of the component that answers questions.
pub(crate) const EXTRACTION: World = World { name: "lro-extract", export: "lro:filter/lro-query" };

/// Everything a component may import and use, without versions: what the world lists, and what `wasi:filesystem` itself
/// uses: streams of files with their errors, and the type `datetime`.
pub const ALLOWED_IMPORTS: [&str; 7] = [
    "lro:filter/types",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
];

/// What a component may import besides, without versions, because runtimes of languages do, used or not. It gives nothing:
/// empty environment and standard input, output that goes nowhere, clocks that stand still, random numbers that are the
/// same in every call; leaving the program is a trap.
pub const INERT_IMPORTS: [&str; 14] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

/// Imports, and the version of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Version of the package `lro:filter` the component exports.
    pub version: String,
    /// Imported interfaces with their versions, sorted.
    pub imports: Vec<String>,
}

/// Reads a component's contract and checks that this host can keep it.
pub(super) fn read(bytes: &[u8], world: &'static World) -> Result<Contract, PolicyError> {
    let (mut imports, exports) = names(bytes)?;
    imports.sort();
    let is_known = |name: &str| ALLOWED_IMPORTS.contains(&name) || INERT_IMPORTS.contains(&name);
    if let Some(foreign) = imports.iter().find(|name| !is_known(split(name).0)) {
        return Err(PolicyError::Import { name: foreign.clone() });
    }
    let Some(export) = exports.iter().find(|name| split(name).0 == world.export) else {
        return Err(PolicyError::World { world: world.name, export: world.export, exports });
    };
    let version = split(export).1;
    if !Version::parse(version).is_ok_and(|version| is_supported(&version)) {
        return Err(PolicyError::Version { found: version.to_owned() });
    }
    Ok(Contract { version: version.to_owned(), imports })
}

/// Whether this host is a later or the same version of what a component was built for, with nothing broken in between.
fn is_supported(version: &Version) -> bool {
    let Version { major, minor, patch, pre, .. } = version.clone();
    let comparator = Comparator { op: Op::Caret, major, minor: Some(minor), patch: Some(patch), pre };
    comparator.matches(&VERSION)
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// Names of the imports and exports of the outermost component.
fn names(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), PolicyError> {
    let malformed = |error: wasmparser::BinaryReaderError| PolicyError::Malformed(error.to_string());
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(PolicyError::CoreModule),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}
