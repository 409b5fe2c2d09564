//! Reads the imports and exports of a component from its bytes, before it is compiled.

use semver::{Comparator, Op, Version};
use wasmparser::{Encoding, Parser, Payload};

use super::LoadError;

/// Versions of the package `lro:filter` that this host runs, the newest last. A component of the same `0.MINOR` and an
/// older patch runs too.
pub const VERSIONS: [Version; 2] = [Version::new(0, 1, 0), Version::new(0, 2, 0)];

/// The world of policies.
pub const WORLD: &str = "lro-policy";

/// The interface that a policy exports, without version.
pub(super) const EXPORT: &str = "lro:filter/lro-filter";

/// Interfaces that a component may import and use, without versions: those of the world, and those that
/// `wasi:filesystem` itself uses, for file streams, their errors and the type `datetime`.
pub const ALLOWED_IMPORTS: [&str; 7] = [
    "lro:filter/types",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
];

/// Interfaces that a component may also import, without versions, because language runtimes import them whether used or
/// not. They are stubs: empty environment and standard input, discarded output, clocks that stand still, the same
/// random numbers in every call; exit traps.
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

/// How a file of WebAssembly begins.
const MAGIC: &[u8] = b"\0asm";

/// The imports of a component, and its version of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Version of the exported package `lro:filter`.
    pub version: String,
    /// Imported interfaces with versions, sorted.
    pub imports: Vec<String>,
}

/// Reads the contract of a component and checks that this host supports it.
pub(super) fn read(bytes: &[u8]) -> Result<Contract, LoadError> {
    let (mut imports, exports) = names(bytes)?;
    imports.sort();
    let is_known = |name: &str| ALLOWED_IMPORTS.contains(&name) || INERT_IMPORTS.contains(&name);
    if let Some(foreign) = imports.iter().find(|name| !is_known(split(name).0)) {
        return Err(LoadError::Import { name: foreign.clone() });
    }
    let found: Vec<&str> = exports
        .iter()
        .map(|name| split(name))
        .filter(|(name, _)| *name == EXPORT)
        .map(|(_, version)| version)
        .collect();
    let version = VERSIONS.iter().rev().find_map(|ours| found.iter().find(|version| runs(ours, version)));
    match (version, found.first()) {
        (Some(version), _) => Ok(Contract { version: (*version).to_owned(), imports }),
        (None, Some(other)) => Err(LoadError::Version { found: (*other).to_owned() }),
        (None, None) => Err(LoadError::World { exports }),
    }
}

/// Whether a version of this host is compatible with the one that a component was built for.
fn runs(ours: &Version, built_for: &str) -> bool {
    let Ok(Version { major, minor, patch, pre, .. }) = Version::parse(built_for) else { return false };
    let comparator = Comparator { op: Op::Caret, major, minor: Some(minor), patch: Some(patch), pre };
    comparator.matches(ours)
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// Names of the imports and exports of the root component.
fn names(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), LoadError> {
    if !bytes.starts_with(MAGIC) {
        return Err(LoadError::Malformed("it does not begin as a WebAssembly file".to_owned()));
    }
    let malformed = |error: wasmparser::BinaryReaderError| LoadError::Malformed(error.to_string());
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(LoadError::CoreModule),
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
