//! Random sequences of what changes policies, beside calls, compared with a model.

use std::array;
use std::fs;
use std::path::Path;
use std::thread;

use lro_host::filter::{Filter, Outcome};
use lro_host::policy::{
    CompileCache, Conditions, Digest, LoadOptions, Loaded, Location, Registry, RegistryError, RegistrySettings,
    TenantPolicy,
};
use lro_tests::{rounds, sandbox, wait_until};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{act, calling, filter, leftovers, patient, signature, signed, version};

const TENANTS: [&str; 2] = ["acme", "other"];
const VERSIONS: u32 = 4;

/// The version that bytes have; `None` if they are no policy.
type Content = Option<u32>;

#[derive(Clone, Debug)]
enum Action {
    /// The file of the tenant changes, which nobody looks at before the next step.
    Write(Content),
    Reload,
    Load(Content),
    Swap(u32),
    Rollback,
    /// The tenant is removed and added again.
    Replace,
    /// Everything that is not on disk is gone.
    Restart,
}

#[derive(Clone, Debug)]
struct Step {
    tenant: usize,
    action: Action,
    /// Calls of the tenant at the same time.
    calls: usize,
    /// As many that are given up.
    given_up: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Done,
    Swapped,
    Unchanged,
    Refused,
    NoEarlier,
    UnknownDigest,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let content = || prop_oneof![4 => (0..VERSIONS).prop_map(Some), 1 => Just(None)];
    let action = prop_oneof![
        4 => content().prop_map(Action::Write),
        4 => Just(Action::Reload),
        3 => content().prop_map(Action::Load),
        3 => (0..VERSIONS).prop_map(Action::Swap),
        3 => Just(Action::Rollback),
        1 => Just(Action::Replace),
        1 => Just(Action::Restart),
    ];
    let step = (0..TENANTS.len(), action, 0..3_usize, 0..2_usize).prop_map(|(tenant, action, calls, given_up)| Step {
        tenant,
        action,
        calls,
        given_up,
    });
    vec(step, 1..24)
}

/// What a registry should know of a tenant.
#[derive(Clone, Debug, Default)]
struct Tenant {
    file: Content,
    current: Content,
    /// Number of the current version, which counts loads, too.
    number: u64,
    refused: u64,
    /// Whether the last attempt that was not without effect was refused.
    is_refused: bool,
    /// The current and the previous version, on disk.
    kept: Option<(u32, Content)>,
}

impl Tenant {
    fn put(&mut self, version: u32) -> Effect {
        let previous = self.kept.and_then(|(kept, previous)| if kept == version { previous } else { Some(kept) });
        self.kept = Some((version, previous));
        self.current = Some(version);
        self.number += 1;
        self.is_refused = false;
        Effect::Swapped
    }

    fn load(&mut self, content: Content) -> Effect {
        match content {
            Some(version) if self.current == Some(version) => Effect::Unchanged,
            Some(version) => self.put(version),
            None => {
                self.refused += 1;
                self.is_refused = true;
                Effect::Refused
            }
        }
    }

    fn start(&mut self) -> Effect {
        *self = Self { file: self.file, kept: self.kept, ..Self::default() };
        let result = self.load(self.file);
        if let (Effect::Refused, Some((kept, _))) = (&result, self.kept) {
            self.put(kept);
        }
        result
    }
}

/// Changes the model, and returns what the registry should answer.
fn expected(model: &mut [Tenant; 2], step: &Step) -> Effect {
    let is_kept =
        |version| model.iter().any(|it| it.kept.is_some_and(|(one, other)| [Some(one), other].contains(&version)));
    let is_known = matches!(step.action, Action::Swap(version) if is_kept(Some(version)));
    let tenant = &mut model[step.tenant];
    match step.action {
        Action::Write(content) => {
            tenant.file = content;
            Effect::Done
        }
        Action::Reload => tenant.load(tenant.file),
        Action::Load(content) => tenant.load(content),
        Action::Swap(version) if is_known => tenant.put(version),
        Action::Swap(_) => Effect::UnknownDigest,
        Action::Rollback => match tenant.kept {
            Some((_, Some(previous))) => tenant.put(previous),
            _ => Effect::NoEarlier,
        },
        Action::Replace => {
            tenant.kept = None;
            tenant.start()
        }
        Action::Restart => {
            for tenant in model {
                tenant.start();
            }
            Effect::Done
        }
    }
}

/// The registry, and where it keeps what it knows.
struct World<'a> {
    versions: &'a [Vec<u8>],
    cache: &'a CompileCache,
    root: &'a Path,
    registry: Registry,
}

impl<'a> World<'a> {
    fn new(versions: &'a [Vec<u8>], cache: &'a CompileCache, root: &'a Path) -> Self {
        let world = Self { versions, cache, root, registry: registry(cache, root) };
        for tenant in TENANTS {
            fs::write(world.file(tenant), world.bytes(None)).unwrap();
            world.add(tenant);
        }
        world
    }

    fn file(&self, tenant: &str) -> std::path::PathBuf {
        self.root.join(format!("{tenant}.wasm"))
    }

    fn bytes(&self, content: Content) -> &'a [u8] {
        content.map_or(&self.versions[0][..5000], |version| &self.versions[version as usize])
    }

    fn add(&self, tenant: &str) -> Effect {
        let from = TenantPolicy { location: Location::File(self.file(tenant)), ..TenantPolicy::default() };
        effect(self.registry.add(tenant, from).map_err(RegistryError::from))
    }

    fn act(&mut self, step: &Step) -> Effect {
        let (tenant, any) = (TENANTS[step.tenant], Conditions::default());
        match step.action {
            Action::Write(content) => {
                fs::write(self.file(tenant), self.bytes(content)).unwrap();
                Effect::Done
            }
            Action::Reload => effect(self.registry.reload_tenant(tenant, any)),
            Action::Load(content) => effect(self.registry.load(tenant, &self.bytes(content).into(), any)),
            Action::Swap(version) => effect(self.registry.swap(tenant, &Digest::of(self.bytes(Some(version))), false)),
            Action::Rollback => effect(self.registry.rollback(tenant)),
            Action::Replace => {
                assert!(self.registry.remove(tenant));
                self.add(tenant)
            }
            Action::Restart => {
                self.registry = registry(self.cache, self.root);
                for tenant in TENANTS {
                    self.add(tenant);
                }
                Effect::Done
            }
        }
    }
}

fn registry(cache: &CompileCache, root: &Path) -> Registry {
    let options = LoadOptions { cache: Some(cache.clone()), ..patient() };
    let settings = RegistrySettings { options, kept: Some(root.join("kept")), ..RegistrySettings::default() };
    Registry::new(sandbox().clone(), settings).unwrap()
}

fn effect(loaded: Result<Loaded, RegistryError>) -> Effect {
    match loaded {
        Ok(Loaded::Swapped(_)) => Effect::Swapped,
        Ok(Loaded::Unchanged(_)) => Effect::Unchanged,
        Err(RegistryError::Refused(_)) => Effect::Refused,
        Err(RegistryError::NoEarlier(_)) => Effect::NoEarlier,
        Err(RegistryError::UnknownDigest(_)) => Effect::UnknownDigest,
        other => panic!("{other:?}"),
    }
}

/// The version that answers a call; `None` where no policy is loaded.
fn answer(filter: &Filter) -> Option<String> {
    match &act(filter, "sign") {
        decision if matches!(decision.outcome, Outcome::Offload(_)) => Some(signed(decision)),
        decision => {
            assert!(matches!(&decision.outcome, Outcome::Fail(why) if why.contains("no policy")), "{decision:?}");
            None
        }
    }
}

fn sequence(runtime: &Runtime, versions: &[Vec<u8>], cache: &CompileCache, steps: &[Step]) {
    let root = TempDir::new().unwrap();
    let mut world = World::new(versions, cache, root.path());
    let mut model: [Tenant; 2] = array::from_fn(|_| Tenant { refused: 1, is_refused: true, ..Tenant::default() });
    let filter_of =
        |world: &World<'_>, tenant| filter(world.registry.slot(tenant).unwrap(), &root.path().join("store"));
    for step in steps {
        let (filter, before) = (filter_of(&world, TENANTS[step.tenant]), model[step.tenant].current);
        let should = expected(&mut model, step);
        let answers: Vec<_> = thread::scope(|scope| {
            let given_up: Vec<_> = (0..step.given_up).map(|_| runtime.spawn(calling(filter.clone()))).collect();
            let calls: Vec<_> = (0..step.calls).map(|_| scope.spawn(|| answer(&filter))).collect();
            assert_eq!(world.act(step), should, "{step:?}");
            given_up.iter().for_each(|call| call.abort());
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        // A call has the policy of before or of after, whole.
        let possible = [before, model[step.tenant].current].map(|version| version.map(signature));
        assert!(answers.iter().all(|it| possible.contains(it)), "{answers:?} instead of {possible:?}");
        for (tenant, model) in TENANTS.into_iter().zip(&model) {
            assert_eq!(answer(&filter_of(&world, tenant)), model.current.map(signature), "{tenant}");
            let status = world.registry.slot(tenant).unwrap().status();
            let number = status.version.map_or(0, |version| version.number);
            assert_eq!(
                (number, status.loaded, status.refused, status.refusal.is_some()),
                (model.number, model.number, model.refused, model.is_refused),
                "{tenant}"
            );
        }
    }
    wait_until("nothing is being written", || leftovers(root.path()) == 0);
}

#[test]
fn random_sequences_agree_with_a_model() {
    let compiled = TempDir::new().unwrap();
    let cache = CompileCache::open(compiled.path().join("compiled")).unwrap();
    let runtime = Runtime::new().unwrap();
    let versions: Vec<_> = (0..VERSIONS).map(version).collect();
    let cases = rounds("LRO_SEQUENCES", 32);
    let config = Config { cases: cases.try_into().unwrap(), failure_persistence: None, ..Config::default() };
    let run = |steps: Vec<Step>| {
        sequence(&runtime, &versions, &cache, &steps);
        Ok(())
    };
    TestRunner::new(config).run(&steps(), run).unwrap();
}
