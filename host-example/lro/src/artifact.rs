//! `lro policy pull | push`: components in OCI registries.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use lro_gateway::PolicyRegistries;
use lro_gateway::settings::Config;
use lro_host::policy::{Digest, SIGNATURE_SUFFIX, Source};
use lro_oci::Reference;

use crate::exit::Exit;
use crate::output;

const PULL_EXAMPLES: &str = "Examples:
  lro policy pull oci://ghcr.io/team/policy:1.4.0
  lro policy pull -o my-policy.wasm oci://127.0.0.1:5000/policy@sha256:DIGEST

Credentials: LRO_REGISTRY_HOST, LRO_REGISTRY_USER and LRO_REGISTRY_PASSWORD, or what `docker login` and `podman login` write.";

const PUSH_EXAMPLES: &str = "Examples:
  lro policy push my-policy.wasm oci://ghcr.io/team/policy:1.4.0

Credentials: LRO_REGISTRY_HOST, LRO_REGISTRY_USER and LRO_REGISTRY_PASSWORD, or what `docker login` and `podman login` write.";

/// Pull a component from an OCI registry, with its signature if it has one
///
/// Nothing is written unless all digests are right.
#[derive(Args)]
#[command(after_help = PULL_EXAMPLES)]
pub(crate) struct PullArguments {
    /// The artifact: `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`
    reference: Reference,
    /// Write the component to FILE, and the signature to FILE.minisig [default: the last part of NAME, and .wasm]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one line of JSON: {"reference", "sha256", "bytes", "signed", "file"}
    #[arg(long)]
    json: bool,
}

/// Push a component to an OCI registry, as an artifact that `wkg` pulls too
///
/// Also pushes the signature FILE.minisig, if it exists.
#[derive(Args)]
#[command(after_help = PUSH_EXAMPLES)]
pub(crate) struct PushArguments {
    /// The component
    file: PathBuf,
    /// The artifact: `oci://HOST[:PORT]/NAME[:TAG]`
    reference: Reference,
    /// Print one line of JSON: {"reference", "sha256", "bytes", "signed", "file"}
    #[arg(long)]
    json: bool,
}

/// What was pulled or pushed.
#[derive(serde::Serialize)]
struct Moved {
    /// With the digest of the manifest.
    reference: String,
    /// Of the component.
    sha256: String,
    bytes: usize,
    signed: bool,
    file: String,
}

pub(crate) fn pull(arguments: &PullArguments, config: &Config) -> anyhow::Result<Exit> {
    let PullArguments { reference, output, json } = arguments;
    let (pinned, source) = PolicyRegistries::new(config).pull(reference)?;
    let last = reference.name.rsplit('/').next().unwrap_or(&reference.name);
    let file = output.clone().unwrap_or_else(|| PathBuf::from(format!("{last}.wasm")));
    // The component last: a gateway that watches it never meets it with the old signature.
    let beside = beside(&file);
    match &source.signature {
        Some(signature) => replace(&beside, signature.as_bytes())?,
        None if beside.exists() => {
            bail!("`{}` is there, and what was pulled has no signature: remove it first", beside.display())
        }
        None => {}
    }
    replace(&file, &source.bytes)?;
    report(&pinned, &source, &file, *json)
}

pub(crate) fn push(arguments: &PushArguments, config: &Config) -> anyhow::Result<Exit> {
    let PushArguments { file, reference, json } = arguments;
    let source = Source::read(file, config.loading.component_bytes.get())?;
    let pinned = PolicyRegistries::new(config).push(reference, &source)?;
    report(&pinned, &source, file, *json)
}

fn report(reference: &Reference, source: &Source, file: &Path, json: bool) -> anyhow::Result<Exit> {
    let moved = Moved {
        reference: reference.to_string(),
        sha256: Digest::of(&source.bytes).to_string(),
        bytes: source.bytes.len(),
        signed: source.signature.is_some(),
        file: file.display().to_string(),
    };
    if json {
        output::json(&moved)?;
        return Ok(Exit::Success);
    }
    output::text(&output::columns(&[
        ("artifact", moved.reference),
        ("SHA-256", moved.sha256),
        ("size", format!("{} bytes", moved.bytes)),
        ("signed", if moved.signed { "yes, not checked" } else { "no" }.to_owned()),
        ("file", moved.file),
    ]))?;
    Ok(Exit::Success)
}

/// The file of a signature.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SIGNATURE_SUFFIX);
    name.into()
}

/// Writes a file in one step: a reader sees the old or the new content.
fn replace(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written =
        tempfile::Builder::new().make_in(directory, |path| fs::File::create_new(path)).and_then(|temporary| {
            fs::write(temporary.path(), bytes)?;
            temporary.persist(file).map_err(|error| error.error)
        });
    written.map(drop).with_context(|| format!("cannot write `{}`", file.display()))
}
