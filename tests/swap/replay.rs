//! Signatures that name a tenant, a version and an end: an old policy cannot be played back.

use std::fs;
use std::path::{Path, PathBuf};

use lro_host::policy::{
    Conditions, Digest, LoadError, LoadOptions, Loaded, Location, Policy, Registry, RegistryError, RegistrySettings,
    Source, TenantPolicy,
};
use lro_tests::sandbox;
use tempfile::TempDir;

use crate::signing::Signer;
use crate::support::{answers, filter, patient, registry_settings, signature, version};

const OLDER: Conditions = Conditions { pin: None, allow_older: true };

/// Tenants whose policies are files that one key signs.
struct Signed {
    root: TempDir,
    signer: Signer,
}

impl Signed {
    fn new() -> Self {
        Self { root: TempDir::new().unwrap(), signer: Signer::new(1) }
    }

    fn registry(&self) -> Registry {
        let settings = RegistrySettings { kept: Some(self.path("kept")), ..registry_settings() };
        Registry::new(sandbox().clone(), settings).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn source(&self, number: u32, comment: &str) -> Source {
        let bytes = version(number);
        Source { signature: Some(self.signer.sign_with(&bytes, comment)), bytes }
    }

    /// The policy of a tenant, which is this version with this trusted comment.
    fn tenant(&self, name: &str, number: u32, comment: &str) -> TenantPolicy {
        let Source { bytes, signature } = self.source(number, comment);
        let file = self.path(&format!("{name}.wasm"));
        fs::write(&file, bytes).unwrap();
        fs::write(file.with_extension("wasm.minisig"), signature.unwrap()).unwrap();
        let signers = vec![self.signer.public()];
        TenantPolicy { location: Location::File(file), signers, ..TenantPolicy::default() }
    }

    /// The version that serves a tenant.
    fn served(&self, registry: &Registry, tenant: &str) -> String {
        answers(&filter(registry.slot(tenant).unwrap(), &self.path("store")))
    }
}

fn refusal(loaded: Result<Loaded, RegistryError>) -> LoadError {
    match loaded {
        Err(RegistryError::Refused(refused)) => *refused.error,
        other => panic!("{other:?}"),
    }
}

fn corrupt(file: &Path) {
    fs::write(file, b"nothing").unwrap();
}

#[test]
fn a_signature_for_another_tenant_is_refused() {
    let home = Signed::new();
    let registry = home.registry();
    registry.add("acme", home.tenant("acme", 1, "timestamp:1 file:a.wasm tenant=acme")).unwrap();
    registry.add("other", home.tenant("other", 2, "tenant=other")).unwrap();

    let error = refusal(registry.load("other", &home.source(1, "tenant=acme"), Conditions::default()));
    assert!(matches!(&error, LoadError::Tenant { signed, tenant } if signed == "acme" && tenant == "other"));
    assert_eq!(error.to_string(), "policy is signed for the tenant `acme`, not for `other`");
    // By digest, too, whoever has it.
    let swapped = registry.swap("other", &Digest::of(&version(1)), false);
    assert!(matches!(refusal(swapped), LoadError::Tenant { .. }));
    assert_eq!((home.served(&registry, "acme"), home.served(&registry, "other")), (signature(1), signature(2)));

    // Without a tenant there is nothing to compare with.
    let options = LoadOptions { signers: vec![home.signer.public()], ..patient() };
    let policy = Policy::load(sandbox(), &home.source(1, "tenant=acme version=3"), &options).unwrap();
    assert_eq!(policy.claims().tenant.as_deref(), Some("acme"));
    let options = LoadOptions { tenant: Some("other".to_owned()), ..options };
    let refused = Policy::load(sandbox(), &home.source(1, "tenant=acme"), &options);
    assert!(matches!(refused, Err(LoadError::Tenant { .. })));
}

#[test]
fn an_expired_signature_is_refused() {
    let home = Signed::new();
    let registry = home.registry();
    registry.add("acme", home.tenant("acme", 1, "expires=2999-01-01T00:00:00Z")).unwrap();
    let error = refusal(registry.load("acme", &home.source(2, "expires=2026-01-01T01:00:00+01:00"), OLDER));
    let text = error.to_string();
    assert!(text.starts_with("policy has a signature that expired at 2026-01-01T00:00:00Z; it is now 20"), "{text}");
    for (comment, expected) in [("expires=soon", "RFC 3339"), ("version=two", "dots"), ("tenant=", "name")] {
        let error = refusal(registry.load("acme", &home.source(2, comment), OLDER)).to_string();
        assert!(error.contains(comment) && error.contains(expected), "{error}");
    }
    assert_eq!(home.served(&registry, "acme"), signature(1));
    registry.load("acme", &home.source(2, "color=red expires=2999-01-01T00:00:00.5-11:30"), OLDER).unwrap();
    assert_eq!(home.served(&registry, "acme"), signature(2));
}

#[test]
fn an_older_version_is_refused_unless_it_is_asked_for() {
    let home = Signed::new();
    let registry = home.registry();
    registry.add("acme", home.tenant("acme", 1, "version=1.10")).unwrap();
    for (comment, found) in [("version=1.9.9", "1.9.9"), ("version=1.2.30", "1.2.30"), ("made by hand", "none")] {
        let error = refusal(registry.load("acme", &home.source(2, comment), Conditions::default()));
        let expected = format!("policy has the version {found}, and the tenant's has 1.10: ");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    assert_eq!(home.served(&registry, "acme"), signature(1));
    // As old is not older.
    registry.load("acme", &home.source(2, "version=1.10.0"), Conditions::default()).unwrap();
    registry.load("acme", &home.source(3, "version=2"), Conditions::default()).unwrap();
    assert_eq!(home.served(&registry, "acme"), signature(3));

    // The file still has the first one.
    let reloaded = registry.reload_tenant("acme", Conditions::default());
    assert!(matches!(refusal(reloaded), LoadError::Older { .. }));
    assert!(matches!(registry.reload().as_slice(), [(_, Err(_))]));
    let swapped = registry.swap("acme", &Digest::of(&version(2)), false);
    assert!(matches!(refusal(swapped), LoadError::Older { .. }));
    assert_eq!(home.served(&registry, "acme"), signature(3));

    // To go back is to ask for it.
    registry.rollback("acme").unwrap();
    assert_eq!(home.served(&registry, "acme"), signature(2));
    registry.swap("acme", &Digest::of(&version(3)), false).unwrap();
    registry.reload_tenant("acme", OLDER).unwrap();
    assert_eq!(home.served(&registry, "acme"), signature(1));
    registry.load("acme", &home.source(2, "no version"), OLDER).unwrap();
    registry.load("acme", &home.source(3, "version=0.1"), Conditions::default()).unwrap();
    assert_eq!(registry.slot("acme").unwrap().status().refused, 6);
}

// The same bytes under a later version: what is between them is older now.
#[test]
fn a_component_that_is_signed_anew_has_its_new_version() {
    let home = Signed::new();
    let registry = home.registry();
    registry.add("acme", home.tenant("acme", 1, "version=1")).unwrap();
    let again = registry.load("acme", &home.source(1, "version=1"), Conditions::default()).unwrap();
    assert!(matches!(again, Loaded::Unchanged(_)));
    let renewed = registry.load("acme", &home.source(1, "version=3"), Conditions::default()).unwrap();
    assert!(matches!(renewed, Loaded::Swapped(_)));
    let error = refusal(registry.load("acme", &home.source(2, "version=2"), Conditions::default()));
    assert!(matches!(error, LoadError::Older { .. }));
    assert_eq!(home.served(&registry, "acme"), signature(1));
}

// A restart does not forget how old the last good policy was, and each tenant's has the signature it came with.
#[test]
fn a_restart_does_not_go_back() {
    let home = Signed::new();
    let registry = home.registry();
    registry.add("acme", home.tenant("acme", 2, "tenant=acme version=2")).unwrap();
    registry.add("other", home.tenant("other", 2, "tenant=other version=5")).unwrap();
    drop(registry);

    let registry = home.registry();
    let refused = registry.add("acme", home.tenant("acme", 1, "tenant=acme version=1")).unwrap_err();
    assert!(matches!(*refused.error, LoadError::Older { .. }), "{refused}");
    let from = home.tenant("other", 2, "tenant=other version=5");
    corrupt(&home.path("other.wasm"));
    registry.add("other", from).unwrap_err();
    assert_eq!((home.served(&registry, "acme"), home.served(&registry, "other")), (signature(2), signature(2)));
    registry.reload_tenant("acme", OLDER).unwrap();
    assert_eq!(home.served(&registry, "acme"), signature(1));
}

// Where no signature is asked for, nobody vouches for what its comment says.
#[test]
fn without_keys_no_comment_counts() {
    let home = Signed::new();
    let registry = home.registry();
    registry.add("acme", TenantPolicy { signers: Vec::new(), ..home.tenant("acme", 2, "version=9") }).unwrap();
    let source = home.source(1, "tenant=other version=1 expires=2020-01-01T00:00:00Z");
    registry.load("acme", &source, Conditions::default()).unwrap();
    assert_eq!(home.served(&registry, "acme"), signature(1));
    // With keys from now on, the built-in policy still needs no signature.
    registry.add("acme", home.tenant("acme", 3, "version=9")).unwrap();
    let built_in = TenantPolicy { signers: vec![home.signer.public()], ..TenantPolicy::default() };
    registry.add("acme", built_in).unwrap();
    assert!(registry.slot("acme").unwrap().current().unwrap().policy.is_default());
}
