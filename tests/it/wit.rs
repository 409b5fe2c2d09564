//! The contract reads the same in old and new tools, and says what everything means.

use std::path::{Path, PathBuf};

use lro_host::policy::{Digest, Policy};
use lro_tests::{filter_with, offloaded, patient, read, request, sandbox, settings, text, workspace};
use tempfile::TempDir;
use wit_parser_new::{Docs, PackageId, Resolve, SourceMap, TypeDefKind, UnresolvedPackageGroup};

const PACKAGE: (&str, &str) = ("lro", "filter");

/// Released versions, with the SHA-256 of their files one after another in the order of their names.
const RELEASED: [(&str, &str); 1] = [("0.1.0", "f8bfa919ecc3cfe376acde2a2c839d90b7b113433c5dcfc69235baa3e5f08150")];

/// The package in `wit/`. Read file by file: the parser's own directory reader needs a feature that would compile
/// wasmtime a second time, with other features of its dependencies.
fn resolve() -> (Resolve, PackageId) {
    resolve_files(&texts(&workspace().join("wit")))
}

fn resolve_files(files: &[String]) -> (Resolve, PackageId) {
    let dependencies = texts(&workspace().join("wit/deps")).into_iter().map(|file| group(&[file])).collect();
    let mut resolve = Resolve::default();
    let package = resolve.push_groups(group(files), dependencies).unwrap();
    (resolve, package)
}

fn wit_files(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "wit")).collect();
    files.sort();
    assert!(files.len() >= 3, "{}: run `make setup`", directory.display());
    files
}

fn texts(directory: &Path) -> Vec<String> {
    wit_files(directory).iter().map(|file| read(file)).collect()
}

fn group(files: &[String]) -> UnresolvedPackageGroup {
    let mut sources = SourceMap::default();
    for (number, file) in files.iter().enumerate() {
        sources.push_str(&number.to_string(), file.as_str());
    }
    sources.parse().map_err(|(sources, error)| error.render(&sources)).unwrap()
}

/// What is not documented.
#[derive(Default)]
struct Silent(Vec<String>);

impl Silent {
    fn see(&mut self, name: impl Into<String>, docs: &Docs) {
        if docs.contents.as_deref().unwrap_or_default().trim().is_empty() {
            self.0.push(name.into());
        }
    }
}

/// The version of the package in `wit/`.
fn version(resolve: &Resolve, package: PackageId) -> String {
    resolve.packages[package].name.version.as_ref().unwrap().to_string()
}

// What is released does not change.
#[test]
fn a_released_version_is_frozen() {
    let wit = workspace().join("wit");
    let (resolve, package) = resolve();
    let frozen = wit.join(version(&resolve, package));
    if !frozen.exists() {
        println!("{} is not released yet: nothing to compare", frozen.display());
        return;
    }
    for file in ["lro-filter.wit", "lro-query.wit", "types.wit", "world.wit"] {
        assert_eq!(read(&frozen.join(file)), read(&wit.join(file)), "{file} changed, and the version did not");
    }
}

#[test]
fn no_released_version_has_changed() {
    let folders = std::fs::read_dir(workspace().join("wit")).unwrap().map(|entry| entry.unwrap());
    let names = folders.map(|entry| entry.file_name().into_string().unwrap());
    let mut versions: Vec<String> =
        names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect();
    versions.sort();
    assert_eq!(versions, RELEASED.map(|(version, _)| version), "a version was released or withdrawn: list it");
    for (version, digest) in RELEASED {
        let bytes = texts(&workspace().join("wit").join(version)).concat();
        assert_eq!(Digest::of(bytes.as_bytes()).to_string(), digest, "the files of {version} changed");
    }
}

/// Whether components made for the first package can be run by hosts of the second.
fn compatible(previous: &[String], next: &[String]) -> Result<(), String> {
    let (mut resolve, previous) = resolve_files(previous);
    let next = resolve.push_group(group(next)).unwrap();
    for (name, world) in &resolve.packages[previous].worlds {
        let next = resolve.packages[next].worlds.get(name).ok_or_else(|| format!("no world {name}"))?;
        wit_component::semver_check(resolve.clone(), *world, *next).map_err(|error| format!("{error:#}"))?;
    }
    Ok(())
}

/// The numbers up to the first that is not 0, which versions share when components of the earlier run in the later.
fn track(version: &str) -> &str {
    let mut end = 0;
    for number in version.split_inclusive('.') {
        end += number.len();
        if number.trim_end_matches('.') != "0" {
            break;
        }
    }
    &version[..end]
}

#[test]
fn versions_of_one_track_are_compatible() {
    let (resolve, package) = resolve();
    let version = version(&resolve, package);
    let current = texts(&workspace().join("wit"));
    for (released, _) in RELEASED.iter().filter(|(released, _)| track(released) == track(&version)) {
        compatible(&texts(&workspace().join("wit").join(released)), &current).unwrap();
    }
    // The check sees what breaks a component, and nothing else.
    let edited = |from: &str, to: &str| -> Vec<String> {
        let edited = current.iter().map(|file| file.replace(from, to));
        let edited = edited.map(|file| file.replace(&format!("@{version};"), "@999.0.0;")).collect();
        assert_ne!(current, edited);
        edited
    };
    compatible(&current, &edited("", "")).unwrap();
    compatible(&current, &edited("world lro-policy {", "interface more {}\nworld lro-policy {")).unwrap();
    compatible(&current, &edited("budget: budget)", "budget: budget, more: bool)")).unwrap_err();
    compatible(&current, &edited("world lro-policy {", "world another {")).unwrap_err();
}

/// The components in `tests/frozen` were built from `guest/template` for the version in their name, and stay as they are.
#[test]
fn a_component_of_every_released_version_is_loaded_and_works() {
    let wit = workspace().join("wit");
    let released = std::fs::read_dir(&wit).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let versions: Vec<String> =
        released.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect();
    assert!(!versions.is_empty());
    for version in versions {
        let component = workspace().join(format!("tests/frozen/policy-{version}.wasm"));
        let policy = Policy::from_file(sandbox(), &component, &patient()).unwrap();
        assert_eq!(policy.contract().version, version);
        let root = TempDir::new().unwrap();
        let lines = "a line of text\n".repeat(10_000);
        let decision = filter_with(policy, root.path()).apply(&request(settings()), &text(lines.clone()));
        let offload = offloaded(decision).offload;
        let file = &offload.record().files[0];
        assert_eq!(read(&offload.path().join(&file.name)), lines);
    }
}

/// As `wkg wit build` makes it.
#[test]
fn the_contract_is_a_package_that_can_be_published() {
    let (resolve, package) = resolve();
    let encoded = wit_component::encode(&resolve, package, false).unwrap();
    let wit_component::DecodedWasm::WitPackage(decoded, package) = wit_component::decode(&encoded).unwrap() else {
        panic!("not a package");
    };
    let decoded = &decoded.packages[package];
    assert_eq!(decoded.worlds.len(), 2);
    assert_eq!(decoded.interfaces.len(), 3);
    let wit = workspace().join("wit");
    let manifest: toml::Table = read(&wit.join("wkg.toml")).parse().unwrap();
    let metadata = manifest["metadata"].as_table().unwrap();
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["authors", "description", "licenses"]);
    let entry = format!("\n## {}\n", decoded.name.version.as_ref().unwrap());
    assert!(read(&wit.join("CHANGELOG.md")).contains(&entry), "the change log has no entry for{entry}");
}

#[test]
fn the_newest_parser_reads_the_contract() {
    let (resolve, package) = resolve();
    let name = &resolve.packages[package].name;
    assert_eq!((name.namespace.as_str(), name.name.as_str()), PACKAGE);
    let world = resolve.select_world(&[package], Some("lro-policy")).unwrap();
    assert_eq!(resolve.worlds[world].exports.len(), 1);
}

#[test]
fn the_parser_of_cargo_component_reads_the_contract() {
    let mut resolve = wit_parser_old::Resolve::default();
    let (package, _) = resolve.push_dir(workspace().join("wit")).unwrap();
    let name = &resolve.packages[package].name;
    assert_eq!((name.namespace.as_str(), name.name.as_str()), PACKAGE);
    resolve.select_world(package, Some("lro-policy")).unwrap();
}

/// Interfaces, worlds, types, functions, the fields of records, and the cases of variants, enums and flags.
#[test]
fn everything_is_documented() {
    let (resolve, package) = resolve();
    let (package, mut silent) = (&resolve.packages[package], Silent::default());
    for (name, world) in &package.worlds {
        silent.see(name, &resolve.worlds[*world].docs);
    }
    for (interface_name, interface) in &package.interfaces {
        let interface = &resolve.interfaces[*interface];
        silent.see(interface_name, &interface.docs);
        for (name, function) in &interface.functions {
            silent.see(format!("{interface_name}.{name}"), &function.docs);
        }
        for (name, found) in &interface.types {
            let found = &resolve.types[*found];
            // A name brought in by `use` is documented where it comes from.
            if matches!(found.kind, TypeDefKind::Type(_)) {
                continue;
            }
            let name = format!("{interface_name}.{name}");
            silent.see(&name, &found.docs);
            let cases: Vec<(&str, &Docs)> = match &found.kind {
                TypeDefKind::Variant(kind) => kind.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
                TypeDefKind::Enum(kind) => kind.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
                TypeDefKind::Flags(kind) => kind.flags.iter().map(|flag| (flag.name.as_str(), &flag.docs)).collect(),
                TypeDefKind::Record(kind) => {
                    kind.fields.iter().map(|field| (field.name.as_str(), &field.docs)).collect()
                }
                _ => Vec::new(),
            };
            for (case, docs) in cases {
                silent.see(format!("{name}.{case}"), docs);
            }
        }
    }
    assert!(package.interfaces.len() >= 2 && !package.worlds.is_empty());
    assert_eq!(silent.0, Vec::<String>::new());
}
