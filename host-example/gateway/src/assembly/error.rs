//! Why a gateway cannot be assembled, served or reloaded.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use lro_host::filter::FilterError;
use lro_host::policy::{LoadError, RegistryError};
use lro_host::store::StoreError;

use crate::listener::tls::TlsError;
use crate::operations::OperationsError;
use crate::settings::SettingsError;
use crate::stdio::ServeError;
use crate::tenants::jwt::KeysError;
use crate::upstream::EndpointError;

/// Why a gateway cannot be assembled from its configuration, or served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// A token or a header of the configuration cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The value of a key is invalid.
    #[error("{key}: {reason}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The certificate of the listener cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The keys of the authorization server cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Neither a command nor `gateway.upstream` names a server.
    #[error("no server given: name its command, or set gateway.upstream")]
    NoServer,
    /// Both a command and `gateway.upstream` name a server.
    #[error("two servers given: use either a command or gateway.upstream")]
    TwoServers,
    /// `gateway.upstream` cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system cannot run compiled code.
    #[error("this system cannot run compiled code: {0}")]
    Sandbox(String),
    /// The policy of the default tenant is refused, and no earlier one was kept.
    #[error(transparent)]
    Policy(#[from] LoadError),
    /// The directory of the last good policies cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The directory of policies cannot be read.
    #[error("cannot read `{path}` (policy-dir)")]
    PolicyDirectory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// `gateway.user` is not in the user database.
    #[error("there is no user `{user}` in {database}, for `gateway.user`: use UID:GID")]
    UnknownUser {
        /// The name.
        user: String,
        /// The path of the database.
        database: &'static str,
    },
    /// The user database cannot be read.
    #[error("cannot read {database}, for `gateway.user`")]
    Users {
        /// The path of the database.
        database: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The server cannot run as `gateway.user`.
    #[error("the server cannot run as `gateway.user`")]
    User(#[source] io::Error),
    /// The store cannot be used: see [`Gateway::check`](crate::Gateway::check).
    #[error("results cannot be offloaded")]
    Store(#[from] StoreError),
    /// The policy of a tenant cannot be called, or refuses its settings: see [`Gateway::check`](crate::Gateway::check).
    #[error("results of tenant `{tenant}` cannot be filtered")]
    Filter {
        /// The tenant.
        tenant: String,
        /// What the policy says, or why it was not called.
        #[source]
        source: FilterError,
    },
    /// The metrics cannot be served.
    #[error(transparent)]
    Operations(#[from] OperationsError),
    /// `gateway.listen` cannot be bound.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The threads for HTTP connections cannot be started, or standard input and output cannot be opened.
    #[error("cannot serve")]
    System(#[source] io::Error),
    /// Serving standard input and output failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Why a new configuration is not taken. The previous one stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A truncated file must not open the gateway to everyone.
    #[error("there are no [gateway.tokens] any more: to serve without tokens needs a restart")]
    NoTokens,
    /// The token is in a variable that running servers may have received.
    #[error("the server was given the variable `{0}`: with a token in it, the gateway needs a restart")]
    ExposedToken(String),
    /// The first fuel limit: no policy was compiled for it.
    #[error("limits.fuel needs a restart: no policy counts instructions yet")]
    Fuel,
    /// The configuration cannot be used.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
}
