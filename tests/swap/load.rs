//! What is checked before a policy takes over, and what is refused.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use lro_host::policy::{
    CompileLimits, CompilePlace, Compiler, Conditions, Digest, LoadError, LoadOptions, Location, Policy, Registry,
    RegistrySettings, Source, TenantPolicy,
};
use lro_tests::{sandbox, target};
use tempfile::TempDir;

use crate::signing::Signer;
use crate::support::{
    all_replaced, answers, component, filter, patient, patient_limits, policy, registry_settings, replaced, signature,
    version, with_note, with_trap_at_start, with_work,
};

fn load(bytes: &[u8], options: &LoadOptions) -> Result<Policy, LoadError> {
    Policy::from_bytes(sandbox(), bytes, options)
}

fn pinned(bytes: &[u8]) -> LoadOptions {
    LoadOptions { pin: Some(Digest::of(bytes)), ..patient() }
}

// Whichever bit is flipped, the digest refuses it, and nothing is compiled.
#[test]
fn a_flipped_bit_is_refused_by_digest() {
    let good = component();
    let options = pinned(&good);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..1000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bad = good.clone();
        let at = (state >> 33) as usize % bad.len();
        bad[at] ^= 1 << (state >> 20 & 7);
        assert!(matches!(load(&bad, &options), Err(LoadError::Pin { .. })), "byte {at}");
    }
    assert!(load(&good, &options).is_ok());
}

// The signature has to be there, of these bytes, and by a trusted key.
#[test]
fn an_unsigned_policy_never_replaces_a_signed_one() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    let beside = root.path().join("policy.wasm.minisig");
    let [trusted, second, stranger] = [1, 2, 3].map(Signer::new);
    let put = |bytes: &[u8], signature: Option<String>| {
        fs::write(&file, bytes).unwrap();
        let _ = fs::remove_file(&beside);
        signature.into_iter().for_each(|text| fs::write(&beside, text).unwrap());
    };
    let registry = Registry::new(sandbox().clone(), registry_settings()).unwrap();
    put(&version(1), Some(trusted.sign(&version(1))));
    let signers = vec![trusted.public(), second.public()];
    registry
        .add("acme", TenantPolicy { location: Location::File(file.clone()), signers, ..TenantPolicy::default() })
        .unwrap();
    let filter = filter(registry.slot("acme").unwrap(), &root.path().join("store"));

    let new = version(2);
    let forged = trusted.sign(&new).replacen("trusted comment: ", "trusted comment: not ", 2);
    for (text, is_unsigned) in [
        (None, true),
        (Some(stranger.sign(&new)), false),
        (Some(trusted.sign(&version(3))), false),
        (Some(String::from("no signature")), false),
        (Some(forged), false),
        (Some(trusted.sign_legacy(&new)), false),
    ] {
        put(&new, text.clone());
        let refused = registry.reload_tenant("acme", Conditions::default()).unwrap_err().to_string();
        assert!(refused.contains(if is_unsigned { "not signed" } else { "not accepted" }), "{refused}: {text:?}");
        assert_eq!(answers(&filter), signature(1));
    }
    put(&new, Some(second.sign(&new)));
    registry.reload_tenant("acme", Conditions::default()).unwrap();
    assert_eq!(answers(&filter), signature(2));
    assert_eq!(registry.slot("acme").unwrap().status().refused, 6);

    fs::write(&beside, "x".repeat(5000)).unwrap();
    assert!(matches!(Source::read(&file, u64::MAX), Err(LoadError::TooLarge { found: 5000, limit: 4096 })));
    let options = LoadOptions { signers: vec![trusted.public()], ..patient() };
    assert!(matches!(load(&new, &options), Err(LoadError::Unsigned)));
}

// A file that changes all the time is read once, so what has the digest is what runs.
#[test]
fn what_was_hashed_is_what_runs() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    let versions = [version(1), version(2)];
    let digests = [Digest::of(&versions[0]), Digest::of(&versions[1])];
    fs::write(&file, &versions[0]).unwrap();
    let cache = lro_host::policy::CompileCache::open(root.path().join("compiled")).unwrap();
    let options = LoadOptions { cache: Some(cache), pin: Some(digests[0]), ..patient() };
    let done = AtomicBool::new(false);
    let (mut loaded, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                let new = root.path().join("new");
                fs::write(&new, &versions[turn % 2]).unwrap();
                fs::rename(&new, &file).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for race in 0..lro_tests::rounds("LRO_RACES", 10_000) {
            match Policy::from_file(sandbox(), &file, &options) {
                Ok(policy) => {
                    assert_eq!(*policy.digest(), digests[0]);
                    loaded += 1;
                    if loaded % 500 == 1 {
                        let store = root.path().join(format!("store-{race}"));
                        assert_eq!(answers(&filter(policy.into(), &store)), signature(1));
                    }
                }
                Err(LoadError::Pin { found, .. }) => {
                    assert_eq!(found, digests[1]);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("{loaded} loaded, {refused} refused");
    assert!(loaded > 10 && refused > 10, "{loaded} loaded, {refused} refused: no race");
}

// What is no component is refused soon and by name; a link to one is followed.
#[test]
fn what_is_no_component_is_refused_by_name() {
    let root = TempDir::new().unwrap();
    let path = |name: &str| root.path().join(name);
    let try_file = |name: &str| {
        let answer = Policy::from_file(sandbox(), &path(name), &patient());
        answer.map(|policy| *policy.digest())
    };
    let code = sandbox().engine().precompile_component(&component()).unwrap();
    fs::write(path("compiled"), code).unwrap();
    fs::write(path("module"), b"\0asm\x01\0\0\0").unwrap();
    fs::write(path("empty"), b"").unwrap();
    fs::write(path("text"), "a policy").unwrap();
    fs::create_dir(path("directory")).unwrap();
    assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    fs::write(path("cut"), &component()[..component().len() / 2]).unwrap();
    fs::write(path("good"), component()).unwrap();
    for (link, to) in [("link", "good"), ("loop", "loop"), ("dangling", "nothing"), ("device", "/dev/zero")] {
        std::os::unix::fs::symlink(to, path(link)).unwrap();
    }
    for name in ["compiled", "empty", "text", "cut"] {
        assert!(matches!(try_file(name), Err(LoadError::Malformed(_))), "{name}: {:?}", try_file(name));
    }
    assert!(matches!(try_file("module"), Err(LoadError::CoreModule)));
    for name in ["directory", "fifo", "device"] {
        assert!(matches!(try_file(name), Err(LoadError::NotAFile(_))), "{name}: {:?}", try_file(name));
    }
    for name in ["loop", "dangling", "nothing"] {
        assert!(matches!(try_file(name), Err(LoadError::Read { .. })), "{name}: {:?}", try_file(name));
    }
    assert_eq!(try_file("link").unwrap(), Digest::of(&component()));
}

// None of a thousand bad policies takes over, each is counted, and the last reason can be read.
#[test]
fn bad_policies_never_take_over() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    fs::write(&file, version(1)).unwrap();
    let options = LoadOptions { bytes_max: 1 << 20, ..patient() };
    let registry =
        Registry::new(sandbox().clone(), RegistrySettings { options, ..RegistrySettings::default() }).unwrap();
    registry.add("acme", TenantPolicy { location: Location::File(file.clone()), ..TenantPolicy::default() }).unwrap();
    let slot = registry.slot("acme").unwrap();
    let good = component();
    let wanting = |import: &str| (all_replaced(&good, "wasi:filesystem/preopens", import), import.to_owned());
    let bad: [(Vec<u8>, String); 9] = [
        (good[..good.len() - 100].to_vec(), String::new()),
        (b"\0asm\x01\0\0\0".to_vec(), "core module".to_owned()),
        (all_replaced(&good, "lro:filter/lro-filter@0.2.0", "lro:filter/lro-filtre@0.2.0"), "world".to_owned()),
        (all_replaced(&good, "lro:filter/lro-filter@0.2.0", "lro:filter/lro-filter@0.3.0"), "0.3.0".to_owned()),
        wanting("wasi:filesystem/stowaway"),
        wanting("wasi:sockets/tcp-sockets"),
        wanting("wasi:http/outgoing-calls"),
        wanting("wasi:cli/environment-all"),
        (with_note(&good, &"x".repeat(1 << 20)), "more than the limit".to_owned()),
    ];
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let filter = filter(std::sync::Arc::clone(&slot), &root.path().join("store"));
            let mut calls = 0;
            while !done.load(Ordering::Relaxed) {
                assert_eq!(answers(&filter), signature(1));
                calls += 1;
            }
            calls
        });
        let refusals = (0..1000).map(|number| {
            let (bytes, reason) = &bad[number % bad.len()];
            fs::write(&file, bytes).unwrap();
            let refused = registry.reload_tenant("acme", Conditions::default()).err().map(|error| error.to_string());
            (refused, reason, slot.status().refused)
        });
        let refusals: Vec<_> = refusals.collect();
        done.store(true, Ordering::Relaxed);
        assert!(calls.join().unwrap() > 0);
        for (number, (refused, reason, count)) in refusals.into_iter().enumerate() {
            let refused = refused.unwrap_or_default();
            assert!(refused.contains(reason.as_str()), "{refused} does not name {reason}");
            assert_eq!(count, number as u64 + 1);
        }
    });
    let status = slot.status();
    assert_eq!((status.version.unwrap().number, status.loaded), (1, 1));
    assert!(status.refusal.is_some());

    fs::write(&file, with_trap_at_start(&good)).unwrap();
    let refused = registry.reload_tenant("acme", Conditions::default()).unwrap_err().to_string();
    assert!(refused.contains("cannot be started"), "{refused}");
    fs::write(&file, version(2)).unwrap();
    registry.reload_tenant("acme", Conditions::default()).unwrap();
    assert_eq!(slot.status().refusal, None);
}

fn child() -> CompilePlace {
    let program = target().join("release/lro");
    assert!(program.exists(), "{} is not there: run `make build`", program.display());
    CompilePlace::Child { program, arguments: vec!["compile".into()] }
}

fn compiling(place: CompilePlace, limits: CompileLimits) -> LoadOptions {
    LoadOptions { compiler: Compiler::new(place, limits), ..LoadOptions::default() }
}

// A child compiles to the same policy, and what takes too long or needs too much is given up with an error of its own.
#[test]
fn compiling_is_bounded() {
    let root = TempDir::new().unwrap();
    let policy = load(&version(5), &compiling(child(), patient_limits())).unwrap();
    assert_eq!(answers(&filter(policy.into(), root.path())), signature(5));

    // A thread goes on after its time, beside whatever else this process compiles: it has little to do.
    for (place, functions, millis) in [(CompilePlace::Thread, 400, 20), (child(), 3000, 1500)] {
        let time = Duration::from_millis(millis);
        let limits = CompileLimits { time, ..CompileLimits::default() };
        let answer = load(&with_work(&component(), functions, 300), &compiling(place.clone(), limits));
        assert!(matches!(answer, Err(LoadError::CompileTime(limit)) if limit == time), "{place:?}: {answer:?}");
    }

    let limits = CompileLimits { memory_bytes: 192 << 20, ..patient_limits() };
    assert!(load(&component(), &compiling(child(), limits)).is_ok());
    let large = with_work(&component(), 4, 200_000);
    let answer = load(&large, &compiling(child(), limits));
    assert!(matches!(answer, Err(LoadError::CompileMemory(limit)) if limit == 192 << 20), "{answer:?}");

    let absent = CompilePlace::Child { program: "/nowhere/lro".into(), arguments: Vec::new() };
    assert!(matches!(load(&component(), &compiling(absent, limits)), Err(LoadError::Compile(_))));
    let answer = load(&component(), &LoadOptions { bytes_max: 1000, ..patient() });
    assert!(matches!(answer, Err(LoadError::TooLarge { limit: 1000, .. })), "{answer:?}");
}

// As under an emulator of another processor: the child cannot run there, and the policy is compiled all the same.
#[test]
fn a_compiler_that_the_system_does_not_execute_is_replaced_by_a_thread() {
    let root = TempDir::new().unwrap();
    let foreign = root.path().join("lro");
    fs::write(&foreign, b"neither a program nor a script of this machine\0\x01\x02").unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).unwrap();
    let place = CompilePlace::Child { program: foreign, arguments: vec!["compile".into()] };
    let policy = load(&version(6), &compiling(place, patient_limits())).unwrap();
    assert_eq!(answers(&filter(policy.into(), root.path())), signature(6));
}

// A component that keeps the compiler busy keeps no other tenant's calls waiting.
#[test]
fn calls_go_on_while_a_slow_policy_compiles() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    let time = Duration::from_secs(2);
    let options = compiling(child(), CompileLimits { time, ..CompileLimits::default() });
    let registry =
        Registry::new(sandbox().clone(), RegistrySettings { options, ..RegistrySettings::default() }).unwrap();
    // The file comes later.
    registry
        .add("acme", TenantPolicy { location: Location::File(file.clone()), ..TenantPolicy::default() })
        .unwrap_err();
    registry.slot("acme").unwrap().swap(policy(&version(1)));
    let filter = filter(registry.slot("acme").unwrap(), &root.path().join("store"));
    fs::write(&file, with_work(&component(), 3000, 300)).unwrap();
    let (calls, refused) = thread::scope(|scope| {
        let loading = scope.spawn(|| registry.reload_tenant("acme", Conditions::default()).unwrap_err().to_string());
        let mut calls = 0;
        while !loading.is_finished() {
            assert_eq!(answers(&filter), signature(1));
            calls += 1;
        }
        (calls, loading.join().unwrap())
    });
    assert!(refused.contains("to compile"), "{refused}");
    assert!(calls > 10, "calls wait for the compiler: {calls} beside it");
}

// The marker that tells versions apart is where the tests think it is.
#[test]
fn versions_differ_by_their_signature_alone() {
    let (one, two) = (version(1), version(2));
    assert_eq!(one.len(), two.len());
    assert_eq!(replaced(&one, signature(1).as_bytes(), signature(2).as_bytes()), two);
}
