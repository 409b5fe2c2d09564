//! All attacks, with how each must end.

use std::sync::OnceLock;
use std::time::Duration;

use lro_host::policy::Policy;
use lro_host::sandbox::Limits;
use lro_tests::{hostile_policy, rounds};

use crate::modules;
use crate::support::tight;

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    /// The kind of the failure, or none when the attack comes to nothing and the answer is as good as any.
    pub(crate) failure: Option<&'static str>,
}

/// Behaviours of `tests/policies`.
const BEHAVIOURS: [(&str, Option<&str>); 60] = [
    ("inspect-loop", Some("deadline")),
    ("inspect-read", Some("deadline")),
    ("inspect-read-bytewise", Some("deadline")),
    ("loop", Some("deadline")),
    ("read", Some("deadline")),
    ("read-bytewise", Some("deadline")),
    // The world has no clock to sleep by: waiting for the disk is the host call that takes longest.
    ("sync", Some("deadline")),
    ("list", Some("deadline")),
    ("inspect-memory", Some("memory")),
    ("memory", Some("memory")),
    ("inspect-stack", Some("stack")),
    ("stack", Some("stack")),
    ("inspect-trap", Some("trap")),
    ("trap", Some("trap")),
    ("many-bytes:1000", Some("quota")),
    ("overwrite:1000", Some("quota")),
    ("many-files:1000000", Some("quota")),
    ("create-and-remove:1000000", Some("quota")),
    ("many-directories:1000", Some("refused")),
    ("many-directories:100000000", Some("deadline")),
    ("sparse:1000000", Some("quota")),
    ("sparse-files:3", Some("quota")),
    ("hold-files:1000000", Some("quota")),
    ("hold-listings:1000000", Some("quota")),
    ("hold-directories:1000", Some("quota")),
    ("open-and-close:100", None),
    ("forged-handle:0", Some("trap")),
    ("forged-handle:1", Some("trap")),
    ("forged-handle:4000000000", Some("trap")),
    ("inspect-keep-handle", Some("refused")),
    ("write-outside", None),
    ("spellings", None),
    ("names", None),
    ("rename-over", Some("answer")),
    ("read-past-the-end", None),
    ("inspect-advice:4000000", Some("crossing")),
    ("inspect-advice:900000", None),
    ("inspect-plan:100000", Some("crossing")),
    ("inspect-cut:0", None),
    ("big-descriptor:1500000", Some("crossing")),
    ("big-descriptor:50000", Some("answer")),
    ("many-notes:2000", Some("crossing")),
    // The world has no log: notes and errors are all that a policy can have logged.
    ("many-notes:500", None),
    ("rude-notes", None),
    ("rude-error:10000", Some("refused")),
    ("rude-name", Some("answer")),
    ("lie-size", Some("answer")),
    ("lie-absent", Some("answer")),
    ("lie-unlisted", Some("answer")),
    ("lie-twice", Some("answer")),
    ("lie-name", Some("answer")),
    ("lie-count:2", Some("answer")),
    ("lie-nan", Some("answer")),
    ("lie-infinity", None),
    ("lie-deep:15000", Some("answer")),
    ("lie-numbers", None),
    ("lie-cycle", Some("answer")),
    ("lie-ahead", Some("answer")),
    ("lie-depth:5000", Some("answer")),
    ("plant-secret", None),
];

/// Only what is to end at its deadline has a near one: a busy machine must not end the others by it.
fn limits(failure: Option<&str>) -> Limits {
    match failure {
        Some("deadline") => tight(),
        _ => Limits { wall_time: Duration::from_secs(10), ..tight() },
    }
}

/// Every attack, compiled once.
pub(crate) fn all() -> &'static [Attack] {
    static ATTACKS: OnceLock<Vec<Attack>> = OnceLock::new();
    ATTACKS.get_or_init(|| {
        let behaviours = BEHAVIOURS.iter().map(|&(name, failure)| Attack {
            name,
            policy: hostile_policy(),
            limits: tight(),
            failure,
        });
        let modules = modules::attacks().into_iter().map(|(name, body, failure)| {
            let policy = modules::load(&modules::component(&body)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let limits = match failure {
                // The answer is in its memory, all of it.
                "crossing" => Limits { memory_bytes: 1 << 30, ..limits(Some(failure)) },
                _ => limits(Some(failure)),
            };
            Attack { name, policy, limits, failure: Some(failure) }
        });
        behaviours.chain(modules).collect()
    })
}

/// Calls of the tests that repeat the attacks in turn.
pub(crate) fn repetitions() -> usize {
    rounds("LRO_HOSTILE_ROUNDS", 1000)
}
