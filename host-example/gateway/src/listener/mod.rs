//! What all HTTP listeners of the gateway share: connection limits, fair shares between tenants, host and origin
//! checks, bounded bodies, TLS, and throttling of wrong tokens.

pub(crate) mod attempts;
pub(crate) mod body;
pub(crate) mod connections;
pub(crate) mod guard;
pub(crate) mod shares;
pub(crate) mod tls;
