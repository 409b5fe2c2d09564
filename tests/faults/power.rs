//! Power that fails: whatever the disk has then, an offload that readers find is whole, one that was answered is there, and
//! the next start leaves nothing unpublished.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lro_host::store::{Fsync, MANIFEST_NAME, Store, StoreConfig, Ulid};
use lro_tests::{TENANT, rounds};
use tempfile::TempDir;

use crate::disk::{Disk, Operation, record};
use crate::support::{names, none_starts, output, rows, scratch, verify};
use crate::trace::{Call, parse, strace, with_lro};

/// Directory of the offloads in the tree.
const STORE: &str = "offloads";

/// Trees that are judged at each cut.
const SEEDS: usize = 24;

/// Files of an offload, byte for byte.
type Files = BTreeMap<String, Vec<u8>>;

/// A run of the command, and what must hold whenever the power fails in it.
struct Run {
    before: Disk,
    operations: Vec<Operation>,
    /// All offloads that were ever published.
    published: BTreeMap<Ulid, Files>,
    /// Those that nothing removes.
    staying: BTreeSet<Ulid>,
    /// Those that must be there once the command has answered.
    answered: BTreeSet<Ulid>,
    /// Those that may be damaged, or lost: whoever reads them gets an error.
    endangered: BTreeSet<Ulid>,
}

/// Three sections with indexes and without, a text and an image.
fn several_sections() -> String {
    let (text, image) = ("A line of text.\\n".repeat(300), "iVBORw0KGgoA".repeat(400));
    format!(
        r#"{{"content":[{{"type":"text","text":"{text}"}},{{"type":"image","data":"{image}","mimeType":"image/png"}}],
            "structuredContent":{{"rows":{},"more":{},"few":{}}}}}"#,
        rows(1500),
        rows(2500),
        rows(3)
    )
}

/// All published offloads of a tree.
fn published(root: &Path) -> BTreeMap<Ulid, Files> {
    let directory = root.join(STORE).join(TENANT);
    let files = |name: &String| {
        let path = directory.join(name);
        names(&path).into_iter().map(|name| (name.clone(), fs::read(path.join(name)).unwrap())).collect()
    };
    names(&directory).iter().filter_map(|name| Some((name.parse().ok()?, files(name)))).collect()
}

/// A tree with some offloads, and an input.
struct Place {
    _directory: TempDir,
    root: PathBuf,
    log: PathBuf,
    input: String,
}

impl Place {
    /// With this many offloads of the input.
    fn new(content: &str, offloads: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let input = base.join("input.json");
        fs::write(&input, content).unwrap();
        fs::create_dir(base.join("tree")).unwrap();
        let (root, log, input) = (base.join("tree"), base.join("log"), input.to_str().unwrap().to_owned());
        let place = Self { _directory: directory, root, log, input };
        for _ in 0..offloads {
            let output = output(place.lro(Command::new("env"), &place.offload(&[])));
            assert!(output.status.success(), "{output:?}");
        }
        place
    }

    /// Arguments to offload the input.
    fn offload<'a>(&'a self, flags: &[&'a str]) -> Vec<&'a str> {
        [&["offload", "--mode", "always", "--images", "offload", "--tenant", TENANT], flags, &[&self.input]].concat()
    }

    fn lro(&self, command: Command, arguments: &[&str]) -> Command {
        let store = self.root.join(STORE);
        with_lro(command, &[&["--dir", store.to_str().unwrap()], arguments].concat())
    }

    /// Runs the command to its end, and records what it does to the disk.
    fn run(&self, arguments: &[&str]) -> Run {
        self.record(|| self.trace(&[], arguments))
    }

    /// The calls of the command, which ends well unless more options of `strace` kill it.
    fn trace(&self, more: &[&str], arguments: &[&str]) -> Vec<Call> {
        let options = ["-xx", "-y", "-s", "1000000000", "-e", "trace=%file,%desc", "-e", "signal=none"];
        let output = output(self.lro(strace(&[&options, more].concat(), &self.log), arguments));
        assert_eq!(output.status.success(), more.is_empty(), "{output:?}");
        parse(&fs::read_to_string(&self.log).unwrap())
    }

    /// Records what calls do to the disk, and checks that the model does the same.
    fn record(&self, run: impl FnOnce() -> Vec<Call>) -> Run {
        let (disk, old) = (Disk::read(&self.root), published(&self.root));
        let (before, operations) = record(&self.root, disk, &run());
        let new = published(&self.root);
        let replayed = TempDir::new().unwrap();
        after(&before, &operations).write_whole(replayed.path());
        assert_eq!(tree(replayed.path()), tree(&self.root), "the model does not do what the command did");
        let staying = new.keys().filter(|id| old.contains_key(id)).copied().collect();
        let answered = new.keys().copied().collect();
        Run {
            before,
            operations,
            published: old.into_iter().chain(new).collect(),
            staying,
            answered,
            endangered: BTreeSet::new(),
        }
    }
}

/// The disk after these operations.
fn after(before: &Disk, operations: &[Operation]) -> Disk {
    let mut disk = before.clone();
    operations.iter().for_each(|operation| disk.perform(operation));
    disk
}

/// All paths below a directory, with the content of files.
fn tree(path: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for name in names(path) {
        let inner = path.join(&name);
        if inner.is_file() {
            found.insert(name, Some(fs::read(inner).unwrap()));
        } else {
            found.extend(tree(&inner).into_iter().map(|(rest, content)| (format!("{name}/{rest}"), content)));
            found.insert(name, None);
        }
    }
    found
}

/// Everything that a cut leaves, for each seed.
fn judge_cut(run: &Run, disk: &Disk, is_answered: bool, seeds: std::ops::Range<usize>) -> Result<usize, String> {
    let trees = seeds.len();
    for seed in seeds {
        let root = scratch();
        disk.write_remains(root.path(), seed as u64);
        let wanted = if is_answered { &run.answered } else { &run.staying };
        judge(root.path(), run, wanted).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(trees)
}

/// Cuts the power after each operation, and in each write. Tells the cuts and the trees that were judged.
fn judge_run(run: &Run, seeds: usize) -> Result<(usize, usize), String> {
    let (mut disk, mut is_answered) = (run.before.clone(), false);
    let (mut cuts, mut trees) = (1, judge_cut(run, &disk, false, 0..1)?);
    for (number, operation) in run.operations.iter().enumerate() {
        let failed = |error| format!("power lost at operation {number}, {operation}: {error}");
        if let Some(half) = operation.half(number as u64) {
            let mut torn = disk.clone();
            torn.perform(&half);
            trees += judge_cut(run, &torn, is_answered, 0..seeds).map_err(failed)?;
            cuts += 1;
        }
        disk.perform(operation);
        is_answered |= matches!(operation, Operation::Reply);
        trees += judge_cut(run, &disk, is_answered, 0..seeds).map_err(failed)?;
        cuts += 1;
    }
    Ok((cuts, trees))
}

/// What the next process makes of a tree.
fn judge(root: &Path, run: &Run, wanted: &BTreeSet<Ulid>) -> Result<(), String> {
    let _none_starts = none_starts();
    let tenant = root.join(STORE).join(TENANT);
    let config = StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(root.join(STORE)) };
    let store = Store::open_unswept(config.clone()).map_err(|error| format!("{error:?}"))?;
    let here: BTreeSet<Ulid> = names(&tenant).iter().filter_map(|name| name.parse().ok()).collect();
    for id in &here {
        let directory = tenant.join(id.to_string());
        if run.endangered.contains(id) && verify(&store, TENANT, *id).is_err() {
            continue;
        }
        if !directory.join(MANIFEST_NAME).exists() {
            return Err(format!("{id} has no manifest"));
        }
        verify(&store, TENANT, *id).map_err(|error| format!("{id}: {error}"))?;
        let whole = run.published.get(id).ok_or_else(|| format!("{id} was never published"))?;
        for name in names(&directory) {
            let content = fs::read(directory.join(&name)).unwrap();
            if whole.get(&name) != Some(&content) {
                return Err(format!("{id}: {name} is not what was published"));
            }
        }
    }
    if let Some(lost) = wanted.iter().find(|id| !here.contains(id)) {
        return Err(format!("{lost} is lost"));
    }
    drop(store);
    let store = Store::open(config).map_err(|error| format!("{error:?}"))?;
    let left: Vec<String> = names(&tenant).into_iter().filter(|name| name.parse::<Ulid>().is_err()).collect();
    let owners = names(&root.join(STORE).join(".owners")).len();
    if !left.is_empty() || owners != 1 || store.usage().offloads != here.len() as u64 {
        return Err(format!("left by the next start: {left:?}, owners {owners}, counted {:?}", store.usage()));
    }
    Ok(())
}

/// Judges a run, and tells how many cuts and trees there were.
fn check(name: &str, run: &Run) {
    let started = Instant::now();
    let seeds = rounds("LRO_POWER_SEEDS", SEEDS);
    let (cuts, trees) = judge_run(run, seeds).unwrap_or_else(|error| panic!("{name}: {error}"));
    println!("{name}: {} operations, {cuts} cuts, {trees} trees, {:?}", run.operations.len(), started.elapsed());
}

#[test]
fn one_section_in_a_store_that_is_made() {
    let place = Place::new(&rows(40), 0);
    let run = place.run(&place.offload(&[]));
    assert_eq!((run.staying.len(), run.answered.len()), (0, 1));
    check("one section", &run);
}

#[test]
fn several_sections_a_text_and_an_image() {
    let place = Place::new(&several_sections(), 1);
    let run = place.run(&place.offload(&[]));
    assert_eq!((run.staying.len(), run.answered.len()), (1, 2));
    for name in ["text.txt", "binary.png", "rows.jsonl", ".rows.jsonl.index", ".more.jsonl.index", MANIFEST_NAME] {
        assert!(run.published.values().all(|files| files.contains_key(name)), "{name}");
    }
    check("several sections", &run);
}

#[test]
fn a_large_section_of_many_writes() {
    let place = Place::new(&rows(40_000), 0);
    let run = place.run(&place.offload(&[]));
    assert!(run.operations.iter().filter(|operation| matches!(operation, Operation::Change { .. })).count() > 10);
    check("large section", &run);
}

// With `after`, what was answered last may be lost or damaged, which is noticed, and nothing else.
#[test]
fn what_is_synchronized_behind_the_answer() {
    let place = Place::new(&several_sections(), 1);
    let mut run = place.run(&place.offload(&["--fsync", "after"]));
    run.endangered = run.answered.difference(&run.staying).copied().collect();
    let answered = std::mem::replace(&mut run.answered, run.staying.clone());
    assert_eq!((run.staying.len(), run.endangered.len()), (1, 1));
    check("behind the answer", &run);

    // At its end, the command has made it durable.
    run.endangered.clear();
    run.answered = answered;
    let disk = after(&run.before, &run.operations);
    judge_cut(&run, &disk, true, 0..SEEDS).unwrap();
    let id = run.answered.last().unwrap().to_string();
    let enters = |operation: &Operation| matches!(operation, Operation::Enter { entries, .. } if entries.iter().any(|(name, node)| *name == id && node.is_some()));
    let published = run.operations.iter().position(enters).unwrap();
    for name in run.published.values().next_back().unwrap().keys() {
        let synchronized = |operation: &Operation| matches!(operation, Operation::Sync { name: path, began, .. } if path.ends_with(&format!("{id}/{name}")) && *began > published);
        assert!(run.operations.iter().any(synchronized), "{name}");
    }
}

#[test]
fn the_oldest_makes_room() {
    let place = Place::new(&several_sections(), 2);
    // As quotas count: whole blocks, and one more for each file and each directory.
    let of_files = |files: &Files| files.values().map(|file| file.len().next_multiple_of(4096) + 4096).sum::<usize>();
    let bytes: usize = published(&place.root).values().map(|files| 4096 + of_files(files)).sum();
    let run = place.run(&place.offload(&["--quota-tenant", &(bytes / 2 * 5 / 2).to_string()]));
    assert_eq!((run.staying.len(), run.answered.len()), (1, 2));
    check("quota", &run);
}

#[test]
fn what_has_expired_goes() {
    let place = Place::new(&several_sections(), 2);
    std::thread::sleep(Duration::from_millis(1100));
    let run = place.run(&place.offload(&["--ttl-seconds", "1"]));
    assert_eq!((run.staying.len(), run.answered.len()), (0, 1));
    check("expiry", &run);
}

#[test]
fn everything_is_removed() {
    let place = Place::new(&several_sections(), 2);
    let run = place.run(&["clean", "--all"]);
    assert_eq!((run.published.len(), run.answered.len()), (2, 0));
    check("clean", &run);
}

#[test]
fn the_next_process_goes_on_removing() {
    let place = Place::new(&several_sections(), 2);
    for (call, number) in [("fsync", 1), ("unlinkat", 3)] {
        let run = place.record(|| {
            let kill = format!("inject={call}:signal=SIGKILL:when={number}");
            let mut calls = place.trace(&["-e", &kill], &["clean", "--all"]);
            let ended = calls.len();
            let next = place.trace(&[], &place.offload(&[])).into_iter();
            calls.extend(next.map(|call| Call { began: call.began + ended, ..call }));
            calls
        });
        assert_eq!((run.staying.len(), run.answered.len()), (0, 1), "{call}");
        check(&format!("killed at {call}"), &run);
    }
}

// A model that finds nothing would be worthless.
#[test]
fn each_synchronization_is_needed() {
    let place = Place::new(&several_sections(), 0);
    let mut run = place.run(&place.offload(&[]));
    let whole = run.operations.clone();
    let syncs: Vec<usize> = (0..whole.len()).filter(|at| matches!(whole[*at], Operation::Sync { .. })).collect();
    for at in &syncs {
        run.operations = whole.clone();
        // It ends in the same place and keeps nothing.
        let Operation::Sync { began, .. } = &mut run.operations[*at] else { unreachable!() };
        *began = 0;
        let found = judge_run(&run, SEEDS).err();
        println!("without the {}: {}", whole[*at], found.as_deref().unwrap_or("nothing is wrong"));
        assert!(found.is_some(), "without the {} nothing is wrong", whole[*at]);
    }
    assert!(syncs.len() >= 10, "{}", syncs.len());
}

#[test]
fn files_then_manifest_then_rename_then_directory() {
    let place = Place::new(&several_sections(), 0);
    let run = place.run(&place.offload(&[]));
    let id = run.answered.first().unwrap().to_string();
    let made = |name: &str| {
        let makes = |operation: &Operation| {
            matches!(operation, Operation::Enter { entries, .. }
                if entries.iter().any(|(entry, node)| entry == name && node.is_some()))
        };
        run.operations.iter().position(makes).unwrap_or_else(|| panic!("{name} is not made"))
    };
    // The last write to a file, and where the synchronization of a path begins and ends.
    let written = |file: &str| {
        let writes =
            |operation: &Operation| matches!(operation, Operation::Change { name, .. } if name.ends_with(file));
        run.operations.iter().rposition(writes).unwrap_or_else(|| panic!("{file} is not written"))
    };
    let synced = |path: &str| {
        let found = run.operations.iter().enumerate().find_map(|(at, operation)| match operation {
            Operation::Sync { name, began, .. } if name.ends_with(path) => Some((*began, at)),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{path} is not synchronized"))
    };
    let (renamed, replied) = (made(&id), run.operations.iter().position(|o| matches!(o, Operation::Reply)).unwrap());
    let files = run.published.values().next().unwrap();
    for file in files.keys().map(|name| format!("/{name}")) {
        let (began, ended) = synced(&file);
        assert!(written(&file) < began && ended < renamed, "{file}");
        assert!(made(&file[1..]) <= made(MANIFEST_NAME), "{file} is made after the manifest");
    }
    let staging = run.operations.iter().find_map(|operation| match operation {
        Operation::Enter { entries, .. } => entries.iter().find(|(name, _)| name.starts_with(".staging-")),
        _ => None,
    });
    let (began, ended) = synced(&format!("/{}", staging.unwrap().0));
    assert!(made(MANIFEST_NAME) < began && ended < renamed, "names in the staging directory");
    let (began, ended) = synced(&format!("/{TENANT}"));
    assert!(renamed < began && ended < replied, "the name of the offload");
}
