//! What a component says of itself.

use wasmparser::{Encoding, Parser, Payload};

/// Names of what a component imports and exports.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

impl Interfaces {
    /// Reads the outermost component. The error says what the bytes are instead.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, String> {
        let mut found = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(|error| error.to_string())? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err("it is a core module".to_owned());
                }
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        found.imports.push(import.map_err(|error| error.to_string())?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        found.exports.push(export.map_err(|error| error.to_string())?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}
