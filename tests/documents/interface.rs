//! The page of the interfaces is made from the WIT files.

use std::fmt::Write;
use std::path::Path;

use lro_tests::{read, workspace};
use wit_parser_new::{
    Docs, Function, FunctionKind, Handle, InterfaceId, PackageId, Resolve, SourceMap, Type, TypeDefKind, TypeId,
    TypeOwner, UnresolvedPackageGroup, WorldId, WorldItem, WorldKey,
};

use crate::settings::compare;

const PAGE: &str = "host-example/docs/reference/interface.md";

const HEAD: &str = "# Interfaces\n\n\
    What components and hosts agree on, made from the files in [`wit`](../../../wit) and [`wit/adapter`](../../../wit/adapter), which are the source. \
    `lro:filter` is the contract of policies; `lro:adapter` is for hosts in other languages: see [Other languages and \
    runtimes](../how-to/languages.md). Its interfaces between the components of a composed one are in the files alone.\n";

/// Interfaces of `lro:adapter` that a host calls.
const OF_ADAPTER: [&str; 4] = ["messages", "filter", "files", "reading"];

#[test]
fn the_page_has_every_interface() {
    let mut page = HEAD.to_owned();
    let (resolve, package) = parsed("wit", &[]);
    for world in resolve.packages[package].worlds.values() {
        add_world(&mut page, &resolve, *world);
    }
    for interface in resolve.packages[package].interfaces.values() {
        add_interface(&mut page, &resolve, *interface);
    }
    let (resolve, package) = parsed("wit/adapter", &["wit", "wit/0.1.0"]);
    for (name, interface) in &resolve.packages[package].interfaces {
        if OF_ADAPTER.contains(&name.as_str()) {
            add_interface(&mut page, &resolve, *interface);
        }
    }
    compare(PAGE, &page);
}

/// The package in a folder, with the packages in others and all in `deps`.
fn parsed(folder: &str, others: &[&str]) -> (Resolve, PackageId) {
    let mut dependencies: Vec<UnresolvedPackageGroup> =
        others.iter().map(|folder| group(&files(&workspace().join(folder)))).collect();
    for deps in ["wit/deps", "wit/adapter/deps"] {
        dependencies.extend(files(&workspace().join(deps)).iter().map(|file| group(std::slice::from_ref(file))));
    }
    let mut resolve = Resolve::default();
    let package = resolve.push_groups(group(&files(&workspace().join(folder))), dependencies);
    (resolve, package.unwrap())
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "wit")).collect();
    files.sort();
    files
}

fn group(files: &[std::path::PathBuf]) -> UnresolvedPackageGroup {
    let mut sources = SourceMap::default();
    files.iter().for_each(|file| sources.push_str(&file.display().to_string(), read(file)));
    sources.parse().map_err(|(sources, error)| error.render(&sources)).unwrap()
}

fn add_world(page: &mut String, resolve: &Resolve, world: WorldId) {
    let world = &resolve.worlds[world];
    let name = resolve.id_of_name(world.package.unwrap(), &world.name);
    write!(page, "\n## World `{name}`\n\n{}\n", text(&world.docs)).unwrap();
    for (heading, items) in [("Imports", &world.imports), ("Exports", &world.exports)] {
        let names: Vec<String> = items
            .iter()
            .filter_map(|(key, item)| match (key, item) {
                (WorldKey::Interface(id), WorldItem::Interface { .. }) => Some(format!("`{}`", resolve.id_of(*id)?)),
                _ => None,
            })
            .collect();
        write!(page, "\n{heading}: {}.\n", names.join(", ")).unwrap();
    }
}

fn add_interface(page: &mut String, resolve: &Resolve, id: InterfaceId) {
    let interface = &resolve.interfaces[id];
    write!(page, "\n## Interface `{}`\n\n{}\n", resolve.id_of(id).unwrap(), text(&interface.docs)).unwrap();
    for function in interface.functions.values() {
        if matches!(function.kind, FunctionKind::Freestanding) {
            add_function(page, resolve, function, "###");
        }
    }
    for (name, of) in &interface.types {
        add_type(page, resolve, interface.functions.values(), name, *of);
    }
}

fn add_function(page: &mut String, resolve: &Resolve, function: &Function, level: &str) {
    let name = function.item_name();
    let is_method = !matches!(function.kind, FunctionKind::Freestanding);
    let params = function.params.iter().skip(usize::from(is_method));
    let params: Vec<String> = params.map(|param| format!("{}: {}", param.name, shown(resolve, &param.ty))).collect();
    let result = function.result.as_ref().map_or(String::new(), |result| format!(" -> {}", shown(resolve, result)));
    let signature = format!("{name}: func({}){result}", params.join(", "));
    write!(page, "\n{level} `{name}`\n\n```text\n{signature}\n```\n\n{}\n", text(&function.docs)).unwrap();
}

fn add_type<'a>(
    page: &mut String,
    resolve: &Resolve,
    functions: impl Iterator<Item = &'a Function>,
    name: &str,
    id: TypeId,
) {
    let of = &resolve.types[id];
    let row = |name: &str, of: Option<&Type>, docs: &Docs| {
        let of = of.map_or(String::new(), |of| format!("`{}`", shown(resolve, of)));
        format!("| `{name}` | {of} | {} |\n", text(docs).replace('\n', " ").replace('|', "\\|"))
    };
    let rows: Vec<String> = match &of.kind {
        TypeDefKind::Record(record) => {
            record.fields.iter().map(|field| row(&field.name, Some(&field.ty), &field.docs)).collect()
        }
        TypeDefKind::Variant(variant) => {
            variant.cases.iter().map(|case| row(&case.name, case.ty.as_ref(), &case.docs)).collect()
        }
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| row(&case.name, None, &case.docs)).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| row(&flag.name, None, &flag.docs)).collect(),
        // A name of another interface.
        TypeDefKind::Type(_) => return,
        _ => Vec::new(),
    };
    write!(page, "\n### {} `{name}`\n\n{}\n", of.kind.as_str(), text(&of.docs)).unwrap();
    if !rows.is_empty() {
        write!(page, "\n| | | |\n|---|---|---|\n{}", rows.concat()).unwrap();
    }
    for function in functions {
        let is_of_it = match function.kind {
            FunctionKind::Method(of) | FunctionKind::Static(of) | FunctionKind::Constructor(of) => of == id,
            _ => false,
        };
        if is_of_it {
            add_function(page, resolve, function, "####");
        }
    }
}

/// A type as WIT spells it.
fn shown(resolve: &Resolve, of: &Type) -> String {
    let Type::Id(id) = of else { return format!("{of:?}").to_lowercase().replace("errorcontext", "error-context") };
    let definition = &resolve.types[*id];
    if let (Some(name), TypeOwner::Interface(_)) = (&definition.name, definition.owner) {
        return name.clone();
    }
    let part = |of: &Option<Type>| of.as_ref().map_or("_".to_owned(), |of| shown(resolve, of));
    match &definition.kind {
        TypeDefKind::Option(of) => format!("option<{}>", shown(resolve, of)),
        TypeDefKind::List(of) => format!("list<{}>", shown(resolve, of)),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".to_owned(),
            (ok, None) => format!("result<{}>", part(ok)),
            (ok, err) => format!("result<{}, {}>", part(ok), part(err)),
        },
        TypeDefKind::Tuple(tuple) => {
            let types: Vec<String> = tuple.types.iter().map(|of| shown(resolve, of)).collect();
            format!("tuple<{}>", types.join(", "))
        }
        TypeDefKind::Handle(Handle::Borrow(id)) => format!("borrow<{}>", named(resolve, *id)),
        TypeDefKind::Handle(Handle::Own(id)) => named(resolve, *id),
        // No interface has a type of these kinds yet.
        kind => kind.as_str().to_owned(),
    }
}

fn named(resolve: &Resolve, id: TypeId) -> String {
    resolve.types[id].name.clone().unwrap()
}

fn text(docs: &Docs) -> String {
    docs.contents.clone().unwrap_or_default().trim().to_owned()
}
