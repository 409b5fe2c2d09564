//! `wit-package FILE WIT…`: writes the WIT package of these texts to FILE, encoded as registries have it, and prints where it
//! belongs there, `NAMESPACE/NAME:VERSION`. What it refers to is in `wit/deps`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use lro_tests::workspace;
use wit_parser_new::{Resolve, SourceMap, UnresolvedPackageGroup};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let file = arguments.next().ok_or("usage: wit-package FILE WIT…")?;
    let mut dependencies = Vec::new();
    for entry in fs::read_dir(workspace().join("wit/deps"))? {
        dependencies.push(group([entry?.path()])?);
    }
    let mut resolve = Resolve::default();
    let package = resolve.push_groups(group(arguments)?, dependencies)?;
    fs::write(file, wit_component::encode(&resolve, package, false)?)?;
    let name = &resolve.packages[package].name;
    let version = name.version.as_ref().ok_or("the package has no version")?;
    println!("{}/{}:{version}", name.namespace, name.name);
    Ok(())
}

fn group(files: impl IntoIterator<Item = PathBuf>) -> Result<UnresolvedPackageGroup, Box<dyn Error>> {
    let mut sources = SourceMap::default();
    for file in files {
        sources.push_str(&file.display().to_string(), fs::read_to_string(&file)?);
    }
    sources.parse().map_err(|(sources, error)| error.render(&sources).into())
}
