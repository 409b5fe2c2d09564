//! Why an artifact is not pulled or pushed.

use crate::manifest::{CONFIG, LAYER, MANIFEST};
use crate::reference::{Digest, SCHEME};

/// What is done with a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Getting or storing the manifest.
    Manifest,
    /// Getting or storing the component or its configuration.
    Blob,
    /// Getting a token.
    Token,
}

/// Why an artifact is not pulled or pushed. Each text says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The HTTP client cannot be created, for example without root certificates.
    #[error("cannot create an HTTP client: {0}")]
    Client(String),
    /// The registry cannot be reached, or breaks off in the middle of an answer.
    #[error("the registry {registry} {reason}")]
    Unreachable {
        /// The registry.
        registry: String,
        /// What happened.
        reason: String,
    },
    /// 401 or 403: who asks is unknown, or not allowed to.
    #[error(
        "the registry {registry} refuses access ({status}) {}: set LRO_REGISTRY_HOST, LRO_REGISTRY_USER and \
        LRO_REGISTRY_PASSWORD, or log in with `docker login` or `podman login`; a credential helper (`credsStore`) is not asked",
        if *.with_credentials { "with the credentials there are for it" } else { "without credentials" }
    )]
    Denied {
        /// The registry.
        registry: String,
        /// The status of HTTP.
        status: u16,
        /// Whether credentials were sent.
        with_credentials: bool,
    },
    /// 404.
    #[error("the registry {registry} has no {missing}: compare the name, the tag or the digest with what was pushed")]
    NotFound {
        /// The registry.
        registry: String,
        /// What it does not have.
        missing: String,
    },
    /// Another status than expected.
    #[error("the registry {registry} answers {status} when asked for the {}", match step {
        Step::Manifest => "manifest",
        Step::Blob => "component",
        Step::Token => "token",
    })]
    Status {
        /// The registry.
        registry: String,
        /// The status of HTTP.
        status: u16,
        /// What was done.
        step: Step,
    },
    /// The registry does not follow the distribution API.
    #[error("the registry {registry} gives no valid answer: {reason}")]
    Invalid {
        /// The registry.
        registry: String,
        /// What is wrong.
        reason: String,
    },
    /// The artifact is something else than a component.
    #[error(
        "it is not a WebAssembly component, but {found}; expected are a manifest {MANIFEST}, a configuration {CONFIG} and a \
        layer {LAYER}, as `lro policy push` and `wkg` make them"
    )]
    NotAComponent {
        /// What it is: a media type, or what is wrong.
        found: String,
    },
    /// An artifact has several layers, or none.
    #[error("it has {0} layers; a component is one")]
    Layers(usize),
    /// The manifest or the component is larger than its limit.
    #[error("it has more than {limit} bytes{}", found.map(|found| format!(": {found}")).unwrap_or_default())]
    TooLarge {
        /// The limit.
        limit: u64,
        /// Its size, if the registry says so.
        found: Option<u64>,
    },
    /// What arrived is something else than what was asked for.
    #[error("it has the digest {found}, but {expected} was asked for: the registry or the way to it is broken")]
    Digest {
        /// The digest asked for.
        expected: Digest,
        /// The digest of what arrived.
        found: Digest,
    },
    /// The bytes to push are not a component.
    #[error("only components are pushed, and this is none: {0}")]
    Push(String),
    /// A reference with a digest, to push to.
    #[error("a digest follows from what is pushed: leave it out, as in {SCHEME}HOST/NAME:TAG")]
    PushDigest,
    /// Plain HTTP to another machine.
    #[error("{0} would be asked without TLS, and credentials and answers could be read and changed on the way")]
    Plain(String),
}
