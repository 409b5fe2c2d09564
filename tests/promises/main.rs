//! Every promise of `tests/promises.md` names tests that exist and run.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::fs;
use std::path::Path;

struct Promise<'a> {
    section: &'a str,
    number: &'a str,
    /// Files, and in each of them the tests; a file without a test is a script.
    proofs: Vec<(&'a str, Vec<&'a str>)>,
}

impl Promise<'_> {
    /// Numbers first, then letters with a number.
    fn order(&self) -> (&str, u32) {
        let digits = self.number.trim_start_matches(|c: char| c.is_ascii_uppercase());
        (self.number.strip_suffix(digits).unwrap(), digits.parse().unwrap())
    }
}

fn read(path: impl AsRef<Path>) -> String {
    lro_tests::read(&lro_tests::workspace().join(path))
}

fn promises(list: &str) -> Vec<Promise<'_>> {
    let (mut section, mut promises) = ("", Vec::<Promise<'_>>::new());
    for line in list.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        } else if let Some(promise) = line.strip_prefix("- **") {
            let (number, _) = promise.split_once("** ").expect(line);
            promises.push(Promise { section, number, proofs: Vec::new() });
        } else if let Some(proof) = line.strip_prefix("  - `") {
            let mut names = proof.split('`').step_by(2);
            let file = names.next().unwrap();
            promises.last_mut().expect(line).proofs.push((file, names.filter(|name| !name.is_empty()).collect()));
        } else {
            assert!(section.is_empty() || line.is_empty(), "neither a promise nor its tests: {line}");
        }
    }
    promises
}

/// The lines that start with `item`, each with the attributes, decorators and comments above it, unless these switch it off.
fn items<'a>(source: &'a str, item: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let found: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with(item)).collect();
    let with_those_above = move |at: usize| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '@', '/'])).count();
        lines[at - above..=at].join("\n")
    };
    // `make test` runs where these hold.
    let holds = |line: &&str| ["#[cfg(unix)]", "#[cfg(target_os = \"linux\")]"].contains(line);
    let off = move |item: &String| {
        let switches = ["#[ignore", "#[cfg", "@unittest.skip", "{ skip", "{ todo"];
        item.lines().filter(|line| !holds(line)).any(|line| switches.iter().any(|word| line.contains(word)))
    };
    found.into_iter().map(with_those_above).filter(move |item| !off(item))
}

/// Whether `make test` builds and runs `file`: a file of its own below `tests`, or a module of the `main.rs` beside it.
fn is_in_a_test_binary(file: &Path) -> bool {
    let is_package = |folder: &&Path| lro_tests::workspace().join(folder).join("Cargo.toml").is_file();
    let package = file.ancestors().find(is_package).unwrap();
    let manifest = read(package.join("Cargo.toml"));
    let inside = |path: &Path| path.strip_prefix(package).unwrap().to_str().unwrap().to_owned();

    let main = file.with_file_name("main.rs");
    let single = inside(file).strip_prefix("tests/").is_some_and(|name| !name.contains('/'));
    let module = format!("mod {};", file.file_stem().unwrap().to_str().unwrap());
    let reached = single || file == main || items(&read(&main), &module).next().is_some();
    let target = inside(if single { file } else { &main });
    let built = target.starts_with("tests/") || manifest.contains(&format!("path = \"{target}\""));

    reached && built && is_tested(&manifest)
}

/// Whether `make test` runs the tests of the package with this manifest.
fn is_tested(manifest: &str) -> bool {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
    let makefile = read("Makefile");
    let mut commands = makefile.lines().filter(|line| {
        ["GUEST ", "GUEST_TESTED ", "HOST ", "TESTED "].iter().any(|name| line.starts_with(name))
            || line.contains("$(CARGO) test")
    });
    commands.any(|line| line.split_whitespace().any(|word| word == name))
}

/// Whether `test` of `file` is there and runs, or `file` itself where no test is named.
fn runs(file: &str, test: Option<&str>) -> bool {
    let path = Path::new(file);
    assert!(lro_tests::workspace().join(path).is_file(), "{file} is not a file");
    let has = |item: &str| items(&read(file), item).next().is_some();
    // The tests of a package for Python or Node are started in its directory.
    let is_started = |command: &str| {
        let package = path.parent().and_then(Path::parent).unwrap().display();
        let start = format!("(cd {package} ");
        read("tests/tools/runtimes.sh").lines().any(|line| line.starts_with(&start) && line.contains(command))
    };
    match (path.extension().and_then(|extension| extension.to_str()), test) {
        (Some("rs"), Some(name)) => {
            let is_test = |item: String| item.lines().any(|line| line == "#[test]");
            items(&read(file), &format!("fn {name}(")).any(is_test) && is_in_a_test_binary(path)
        }
        (Some("rs"), None) => file
            .strip_prefix("tests/fuzz/")
            .is_some_and(|target| read("tests/fuzz/Cargo.toml").contains(&format!("path = \"{target}\""))),
        (Some("py"), Some(name)) => {
            let is_alone = || read("tests/tools/runtimes.sh").contains(&format!("\"$python\" {file} "));
            has(&format!("def {name}(")) && (is_started("unittest discover") || is_alone())
        }
        (Some("js"), Some(name)) => has(&format!("test(\"{name}\", ")) && is_started("npm test"),
        // A target of the Makefile.
        (None, Some(target)) => has(&format!("{target}:")) && read(".ci/run").contains(&format!(" {target} ")),
        (_, None) => ["Makefile", "tests/tools/runtimes.sh"].iter().any(|script| read(script).contains(file)),
        _ => panic!("{file}: no such kind of test"),
    }
}

#[test]
fn every_promise_has_a_number_and_tests() {
    let list = read("tests/promises.md");
    let promises = promises(&list);
    let mut numbers: Vec<&str> = promises.iter().map(|promise| promise.number).collect();
    numbers.sort_unstable();
    assert!(!numbers.is_empty());
    for pair in numbers.windows(2) {
        assert_ne!(pair[0], pair[1], "this number is there twice");
    }
    for pair in promises.windows(2).filter(|pair| pair[0].section == pair[1].section) {
        assert!(pair[0].order() < pair[1].order(), "{} is before {}", pair[0].number, pair[1].number);
    }
    for promise in &promises {
        let kept = promise.section != "Not yet";
        assert_eq!(!promise.proofs.is_empty(), kept, "{} in \"{}\"", promise.number, promise.section);
    }
}

#[test]
fn every_test_that_is_named_runs() {
    let list = read("tests/promises.md");
    let mut missing = Vec::new();
    for Promise { number, proofs, .. } in promises(&list) {
        for (file, tests) in proofs {
            let all = if tests.is_empty() { vec![None] } else { tests.into_iter().map(Some).collect() };
            missing.extend(all.into_iter().filter(|test| !runs(file, *test)).map(|test| (number, file, test)));
        }
    }
    assert!(missing.is_empty(), "promises without their tests: {missing:#?}");
}

#[test]
fn the_tests_of_every_package_run() {
    let workspace = lro_tests::workspace();
    let folders = ["guest", "host-example"].map(|parent| fs::read_dir(workspace.join(parent)).unwrap());
    let packages = folders.into_iter().flatten().map(|folder| folder.unwrap().path());
    let with_tests = packages.filter(|package| package.join("Cargo.toml").is_file() && package.join("tests").is_dir());
    // The template is tested where an author would: in a copy.
    let (copied, tested): (Vec<_>, Vec<_>) = with_tests.partition(|package| package.ends_with("guest/template"));
    assert!(copied.len() == 1 && read("tests/tools/runtimes.sh").contains("cp -rL guest/template "));
    let left: Vec<_> = tested.iter().filter(|package| !is_tested(&read(package.join("Cargo.toml")))).collect();
    assert!(!tested.is_empty() && left.is_empty(), "`make test` leaves out {left:?}");
}
