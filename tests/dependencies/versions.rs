//! The version stands in `Cargo.toml`; files that cargo does not read repeat it. `tests/tools/release.sh` writes it.

use lro_tests::{read, workspace};
use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a line says behind its beginning, in quotation marks.
fn quoted(file: &str, beginning: &str) -> String {
    let text = read(&workspace().join(file));
    let line = text.lines().find_map(|line| line.strip_prefix(beginning)).unwrap();
    line.trim_matches('"').to_owned()
}

#[test]
fn all_packages_have_the_version_of_the_workspace() {
    for file in ["host-example/node/package.json", "host-example/edge/package.json", "guest/javascript/package.json"] {
        let manifest: Value = serde_json::from_str(&read(&workspace().join(file))).unwrap();
        assert_eq!(manifest["version"], VERSION, "{file}");
    }
    assert_eq!(quoted("guest/template/Cargo.toml", "version = "), VERSION);
    let python = VERSION.replace("-alpha.", "a").replace("-beta.", "b").replace("-rc.", "rc");
    assert_eq!(quoted("host-example/python/lro_filter/version.py", "__version__ = "), python);
}

#[test]
fn the_change_log_begins_with_what_is_not_released() {
    let log = read(&workspace().join("CHANGELOG.md"));
    let sections: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections[0], "Unreleased");
    // A release has its day: VERSION - YYYY-MM-DD. The first had none.
    for section in sections[1..].iter().filter(|section| **section != "0.1.0") {
        let (version, day) = section.split_once(" - ").unwrap();
        assert!(version.split('.').count() >= 3 && day.len() == 10, "{section}");
    }
}
