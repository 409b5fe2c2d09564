//! What the documents show: shell blocks run, commands are understood, configuration and JSON can be read, links lead
//! somewhere, and the table of the settings is that of the code.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod blocks;
mod clients;
mod interface;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocks::{Block, blocks, links, slug};
use lro_gateway::settings::{CONFIG_KEY, Config};
use lro_host::policy::DEFAULT_POLICY;
use lro_tests::{component, imports, read, target, workspace};
use tempfile::TempDir;

/// Documents outside of [`DOCS`]. Of the first [`TESTED_PAGES`] the blocks are tested too.
const PAGES: [&str; 10] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "wit/CHANGELOG.md",
    "guest/template/README.md",
    "guest/javascript/README.md",
    "host-example/python/README.md",
    "host-example/node/README.md",
    "host-example/edge/README.md",
];

const TESTED_PAGES: usize = 4;

const DOCS: &str = "host-example/docs";

/// What a block may be. Of `text`, which is output and pictures, nothing is tested; `rust` is for doctests.
const LANGUAGES: [&str; 8] = ["sh", "sh skip", "toml", "toml skip", "json", "rust", "rust,ignore", "text"];

/// The command in shell blocks: `lro gateway` checks its arguments and its configuration instead of serving.
const LRO: &str = r#"#!/bin/sh
if [ "$1" = gateway ]; then
    shift
    case " $* " in *" --check-config "*) ;; *) set -- --check-config "$@" ;; esac
    exec "$LRO" gateway "$@"
fi
exec "$LRO" "$@"
"#;

/// The documents whose blocks are tested.
fn documents() -> BTreeMap<PathBuf, String> {
    let mut found = Vec::new();
    markdown(&workspace().join(DOCS), &mut found);
    found.extend(PAGES.iter().take(TESTED_PAGES).map(|page| workspace().join(page)));
    found.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

fn markdown(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn name(document: &Path) -> String {
    document.strip_prefix(workspace()).unwrap().display().to_string()
}

/// Blocks of all documents with a language, and where they are.
fn blocks_of(info: &str) -> Vec<(String, Block)> {
    let of_document = |(path, text): (PathBuf, String)| {
        blocks(&text).into_iter().map(move |block| (format!("{}:{}", name(&path), block.line), block))
    };
    documents().into_iter().flat_map(of_document).filter(|(_, block)| block.info == info).collect()
}

#[test]
fn every_block_is_tested_or_says_why_not() {
    for (path, text) in documents() {
        for block in blocks(&text) {
            let at = format!("{}:{}", name(&path), block.line);
            if block.info.ends_with(" skip") {
                let is_reason = block.before.starts_with("<!-- skipped: ") && block.before.ends_with(" -->");
                assert!(is_reason, "{at}: a skipped block needs `<!-- skipped: reason -->` on the line before");
            }
            assert!(LANGUAGES.contains(&block.info.as_str()), "{at}: `{}`", block.info);
        }
    }
}

/// The blocks of one document run in one shell, one after another, in a directory of their own.
#[test]
fn shell_blocks_run() {
    let lro = target().join("release/lro");
    assert!(lro.exists(), "{} is not there: run `make build`", lro.display());
    let mut failures = Vec::new();
    for (path, text) in documents() {
        let script: Vec<String> = blocks(&text)
            .into_iter()
            .filter(|block| block.info == "sh")
            .map(|block| format!("echo \"== {}:{}\" >&2\n{}", name(&path), block.line, block.text))
            .collect();
        if script.is_empty() {
            continue;
        }
        let root = TempDir::new().unwrap();
        let (programs, work) = (root.path().join("bin"), root.path().join("work"));
        for directory in [&programs, &work] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(programs.join("lro"), LRO).unwrap();
        set_executable(&programs.join("lro"));
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script.join("\n")])
            .current_dir(&work)
            .env("PATH", path)
            .env("LRO", &lro)
            .env("COMPONENTS", target().join("wasm32-unknown-unknown/component"))
            .env("MCP_LRO_DIR", root.path().join("offloads"))
            .output()
            .unwrap();
        if !output.status.success() {
            failures.push(format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Commands of blocks that are not run, with `--help` behind their arguments: what the parser refuses fails before it.
#[test]
fn commands_of_skipped_blocks_are_understood() {
    let lro = target().join("release/lro");
    let directory = TempDir::new().unwrap();
    let mut count = 0;
    for (at, block) in blocks_of("sh skip") {
        let text = block.text.replace("\\\n", " ");
        for line in text.lines().filter_map(|line| line.strip_prefix("lro ")) {
            let line = line.split(" #").next().unwrap().replace("SHA256", &"0".repeat(64));
            let arguments = match line.split_once(" -- ") {
                Some((own, server)) => format!("{own} --help -- {server}"),
                None => format!("{line} --help"),
            };
            let output = Command::new("bash")
                .args(["-c", &format!("\"$LRO\" {arguments}")])
                .current_dir(directory.path())
                .env("LRO", &lro)
                .env("policy", "policy.wasm")
                .output()
                .unwrap();
            assert!(output.status.success(), "{at}: lro {line}: {}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert!(count > 0, "no command is looked at");
}

fn set_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn configuration_in_documents_is_valid() {
    let directory = TempDir::new().unwrap();
    let blocks = blocks_of("toml");
    assert!(!blocks.is_empty());
    for (at, block) in blocks {
        let file = directory.path().join("lro.toml");
        fs::write(&file, &block.text).unwrap();
        let flags = [(CONFIG_KEY.to_owned(), file.to_str().unwrap().to_owned())];
        let loaded = Config::load([("HOME".into(), "/home/user".into())], &flags);
        assert!(loaded.is_ok(), "{at}: {}", loaded.unwrap_err());
    }
}

#[test]
fn json_in_documents_is_valid() {
    for (at, block) in blocks_of("json") {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
        assert!(parsed.is_ok(), "{at}: {}", parsed.unwrap_err());
    }
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut all = documents();
    all.extend(PAGES.iter().map(|page| (workspace().join(page), read(&workspace().join(page)))));
    let mut wrong = Vec::new();
    for (path, text) in &all {
        for link in links(text).into_iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let has_heading = || read(&target).lines().any(|line| line.starts_with('#') && slug(line) == heading);
            if !target.exists() || (!heading.is_empty() && !has_heading()) {
                wrong.push(format!("{}: {link}", name(path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_component_imports_what_the_documents_list() {
    let text = read(&workspace().join(DOCS).join("how-to/policies.md"));
    let listed = blocks(&text).into_iter().find(|block| block.text.starts_with("lro:filter/types@")).unwrap();
    let imports = imports(DEFAULT_POLICY);
    assert_eq!(imports, listed.text.lines().map(str::to_owned).collect());
    assert_eq!(imports.len(), 3);
}

/// The smallest policy of the documents is an example that is compiled with the policies of the tests.
#[test]
fn the_smallest_policy_is_one() {
    let text = read(&workspace().join(DOCS).join("how-to/policies.md"));
    let shown = blocks(&text).into_iter().find(|block| block.info == "rust,ignore").unwrap().text;
    let example = read(&workspace().join("tests/policies/examples/small.rs"));
    let (_, code) = example.split_once("\n\n").unwrap();
    assert_eq!(shown, code.replace("../../wit", "wit"));
    let built = target().join("wasm32-unknown-unknown/component/examples/small.wasm");
    assert!(built.exists(), "{} is not there: run `make test`, which builds it", built.display());
    let small = component("examples/small.wasm");
    assert!(imports(&small).iter().any(|import| import.starts_with("lro:filter/types@")));
}

#[test]
fn the_readme_is_short() {
    let lines = read(&workspace().join("README.md")).lines().count();
    assert!(lines <= 150, "{lines} lines");
}
