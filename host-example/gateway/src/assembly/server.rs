//! The server that a gateway starts: its environment and isolation.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf, absolute};
use std::{env, fs, io};

use lro_system::files::resolved;
use lro_transport::{Isolation, ServerUser};

use super::{GatewayError, parts};
use crate::settings::{Config, Origin, PolicyPlace, ServerEnvironment, Token};
use crate::upstream::Launch;

/// The user database of the system.
const USER_DATABASE: &str = "/etc/passwd";

/// Variables of a server whose paths must not be hidden.
const NEEDED: [&str; 2] = ["HOME", "TMPDIR"];

/// The user that a server runs as.
struct User {
    ids: ServerUser,
    /// Environment variables of the user.
    variables: Vec<(OsString, OsString)>,
}

/// Builds the launch of a server, without isolation.
pub(super) fn launch(program: &OsString, arguments: &[OsString], config: &Config) -> Launch {
    let ServerEnvironment { variables, withheld } = config.server_environment(env::vars_os());
    Launch {
        environment: variables,
        withheld,
        log_bytes: config.gateway.server_log_bytes.get(),
        ..Launch::new(program, arguments.iter().cloned())
    }
}

/// Adds isolation as configured and as far as the system supports it. The paths to hide must exist already. `helper`
/// starts the server.
///
/// # Errors
/// When the user does not exist, or the server cannot run as that user.
pub(super) fn isolated(mut launch: Launch, config: &Config, helper: Option<&Path>) -> Result<Launch, GatewayError> {
    let user = config.gateway.user.as_deref().map(user).transpose()?;
    if !config.gateway.isolate && user.is_none() {
        return Ok(launch);
    }
    let ids = user.as_ref().map(|user| user.ids);
    for (name, value) in user.into_iter().flat_map(|user| user.variables) {
        launch.environment.retain(|(other, _)| *other != name);
        launch.environment.push((name, value));
    }
    let hidden = if config.gateway.isolate { hidden(&launch, config) } else { Vec::new() };
    let no_helper = || io::Error::new(io::ErrorKind::Unsupported, "there is no helper program that starts it");
    let isolation = helper.ok_or_else(no_helper).and_then(|helper| {
        let (program, arguments) = (helper.to_owned(), vec!["enter".into()]);
        let isolation = Isolation { program, arguments, hidden, user: ids };
        isolation.probe().map(|()| isolation)
    });
    match isolation {
        Ok(isolation) => launch.isolation = Some(isolation),
        Err(error) if ids.is_some() => return Err(GatewayError::User(error)),
        Err(error) => tracing::warn!(
            %error,
            "the server is not isolated: it can read all files of the gateway's user, including the offloads of all tenants"
        ),
    }
    Ok(launch)
}

/// Directories and files of the gateway to hide, except those that contain files of the server.
fn hidden(launch: &Launch, config: &Config) -> Vec<PathBuf> {
    let needed = needed(launch);
    let is_needed = |path: &PathBuf| needed.iter().any(|needed| needed.starts_with(path));
    let (left, hidden): (Vec<PathBuf>, Vec<PathBuf>) = private(config).into_iter().partition(is_needed);
    for path in left {
        tracing::warn!(path = %path.display(), "not hidden from the server, because its own files are there");
    }
    hidden
}

/// Paths of offloads, caches, policies, settings and tokens.
fn private(config: &Config) -> BTreeSet<PathBuf> {
    let configs: Vec<Config> = config.tenants.keys().map(|tenant| config.for_tenant(tenant)).collect();
    let policies = configs.iter().chain([config]).filter_map(|config| match &config.policy {
        Some(PolicyPlace::File(path)) => Some(path.clone()),
        Some(PolicyPlace::Registry(_)) | None => None,
    });
    let files = config.explain().into_iter().filter_map(|entry| match entry.origin {
        Origin::File(path) => Some(path),
        _ => None,
    });
    let gateway = &config.gateway;
    let tokens = gateway.tokens.values().chain(&gateway.admin_token).chain(&gateway.metrics_token);
    let tokens = tokens.filter_map(|token| match token {
        Token::File(path) => Some(path.clone()),
        Token::Variable(_) | Token::Sha256(_) => None,
    });
    let caches = [parts::CODE, parts::COMPONENTS].map(parts::cache_directory);
    let directories = [config.policy_keep.clone(), config.policy_dir.clone()].into_iter().chain(caches);
    let tokens = tokens.chain(gateway.tls_key.clone());
    let all = directories.flatten().chain([config.dir.clone()]).chain(policies).chain(files).chain(tokens);
    all.map(|path| resolved(&path)).collect()
}

/// Paths that a server needs: its working directory, program, home, and arguments that are paths.
fn needed(launch: &Launch) -> Vec<PathBuf> {
    let variable = |name: &str| launch.environment.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    let program = match Path::new(&launch.program).components().count() {
        1 => variable("PATH").and_then(|path| {
            env::split_paths(path).map(|directory| directory.join(&launch.program)).find(|path| path.is_file())
        }),
        _ => Some(PathBuf::from(&launch.program)),
    };
    let value = |argument: &OsString| {
        let text = argument.to_str()?;
        text.split_once('=').map(|(_, value)| PathBuf::from(value))
    };
    let arguments = launch.arguments.iter().flat_map(|argument| [Some(PathBuf::from(argument)), value(argument)]);
    let places = NEEDED.iter().filter_map(|name| variable(name)).map(PathBuf::from);
    let all = [env::current_dir().ok(), program].into_iter().chain(arguments).flatten().chain(places);
    let present = all.filter(|path| !path.as_os_str().is_empty() && path.exists());
    // A link is needed as well as its target.
    present.flat_map(|path| [absolute(&path).unwrap_or_default(), resolved(&path)]).collect()
}

/// Looks up a user.
fn user(text: &str) -> Result<User, GatewayError> {
    let ids = |uid: &str, gid: &str| Some(ServerUser { uid: uid.parse().ok()?, gid: gid.parse().ok()? });
    if let Some(ids) = text.split_once(':').and_then(|(uid, gid)| ids(uid, gid)) {
        return Ok(User { ids, variables: Vec::new() });
    }
    let users =
        fs::read_to_string(USER_DATABASE).map_err(|source| GatewayError::Users { database: USER_DATABASE, source })?;
    for line in users.lines() {
        if let [name, _, uid, gid, _, home, ..] = line.split(':').collect::<Vec<_>>()[..]
            && name == text
            && let Some(ids) = ids(uid, gid)
        {
            let variable = |name: &str, value: &str| (OsStr::new(name).to_owned(), OsStr::new(value).to_owned());
            let variables = vec![variable("HOME", home), variable("USER", name), variable("LOGNAME", name)];
            return Ok(User { ids, variables });
        }
    }
    Err(GatewayError::UnknownUser { user: text.to_owned(), database: USER_DATABASE })
}
