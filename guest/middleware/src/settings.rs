//! The settings, from environment variables.

use std::cell::OnceCell;
use std::rc::Rc;
use std::str::FromStr;

use lro_contract::ulid::Ulid;

use crate::bindings::lro::adapter::filter::{self, Error};
use crate::bindings::lro::http::store::Bounds;
use crate::bindings::wasi::cli0_3_0::environment::get_environment;
use crate::bindings::wasi::clocks0_3_0::system_clock::now;
use crate::own::Own;

/// Most bytes of a message from the server, in JSON or as an event, unless `LRO_MESSAGE_BYTES` says otherwise.
const MESSAGE_BYTES_DEFAULT: usize = 64 << 20;

/// Most bytes of a message from the client, unless `LRO_REQUEST_BYTES` says otherwise.
const REQUEST_BYTES_DEFAULT: usize = 4 << 20;

/// Seconds until an offload expires, unless `LRO_TTL_SECONDS` says otherwise.
const TTL_SECONDS_DEFAULT: u64 = 3_600;

/// Most bytes of all files that are kept, unless `LRO_STORE_BYTES` says otherwise.
const STORE_BYTES_DEFAULT: u64 = 4 << 30;

/// Most offloads that are kept, unless `LRO_STORE_OFFLOADS` says otherwise.
const STORE_OFFLOADS_DEFAULT: u32 = 1_000;

/// Longest name of a tenant, which is that of a directory.
const TENANT_BYTES_MAX: usize = 64;

thread_local! {
    /// The environment never changes.
    static SETTINGS: OnceCell<Result<Rc<Settings>, String>> = const { OnceCell::new() };
}

/// The settings.
pub(crate) struct Settings {
    /// `LRO_SETTINGS`: those of the filter, a JSON object.
    pub(crate) filter: String,
    /// `LRO_TENANT`: whose results these are.
    pub(crate) tenant: String,
    /// `LRO_SHOWN_DIR`: the directory with the files, as readers find it. Empty if they have no access to it.
    pub(crate) shown_directory: String,
    /// `LRO_MESSAGE_BYTES`
    pub(crate) message_bytes: usize,
    /// `LRO_REQUEST_BYTES`
    pub(crate) request_bytes: usize,
    /// `LRO_TTL_SECONDS`: when offloads expire, from the time in their ids on.
    pub(crate) ttl_seconds: u64,
    /// `LRO_STORE_BYTES`
    store_bytes: u64,
    /// `LRO_STORE_OFFLOADS`
    store_offloads: u32,
    /// The tools that read offloads; none where they are not kept.
    pub(crate) own: Option<Own>,
}

impl Settings {
    /// The settings of this instance. The error names the variable at fault.
    pub(crate) fn of_environment() -> Result<Rc<Self>, String> {
        SETTINGS.with(|settings| settings.get_or_init(|| Self::read().map(Rc::new)).clone())
    }

    fn read() -> Result<Self, String> {
        let variables = get_environment();
        let of = |name: &str| variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let settings = Self {
            filter: of("LRO_SETTINGS").unwrap_or_else(|| "{}".to_owned()),
            tenant: of("LRO_TENANT").unwrap_or_else(|| "default".to_owned()),
            shown_directory: of("LRO_SHOWN_DIR").unwrap_or_default(),
            message_bytes: number(&variables, "LRO_MESSAGE_BYTES", MESSAGE_BYTES_DEFAULT)?,
            request_bytes: number(&variables, "LRO_REQUEST_BYTES", REQUEST_BYTES_DEFAULT)?,
            ttl_seconds: number(&variables, "LRO_TTL_SECONDS", TTL_SECONDS_DEFAULT)?,
            store_bytes: number(&variables, "LRO_STORE_BYTES", STORE_BYTES_DEFAULT)?,
            store_offloads: number(&variables, "LRO_STORE_OFFLOADS", STORE_OFFLOADS_DEFAULT)?,
            own: Own::of_reader(),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if settings.tenant.is_empty()
            || settings.tenant.len() > TENANT_BYTES_MAX
            || !settings.tenant.bytes().all(is_name)
        {
            let expected = "expected letters, digits, `-` and `_`";
            return Err(format!("LRO_TENANT is `{}`: {expected}, at most {TENANT_BYTES_MAX}", settings.tenant));
        }
        filter::check(&settings.filter).map_err(|error| format!("LRO_SETTINGS: {}", sentence(error)))?;
        Ok(settings)
    }

    /// How much is kept, now.
    pub(crate) fn bounds(&self) -> Bounds {
        let oldest = milliseconds().saturating_sub(self.ttl_seconds.saturating_mul(1_000));
        Bounds { oldest: id_of(oldest, 0), bytes: self.store_bytes, offloads: self.store_offloads }
    }
}

/// A variable that is a positive number, or `default` without it.
fn number<T: FromStr + Default + PartialEq>(
    variables: &[(String, String)],
    name: &str,
    default: T,
) -> Result<T, String> {
    let Some((_, text)) = variables.iter().find(|(found, _)| found == name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| *number != T::default());
    number.ok_or_else(|| format!("{name} is `{text}`: expected a number, at least 1"))
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn milliseconds() -> u64 {
    let now = now();
    let seconds = u64::try_from(now.seconds).unwrap_or_default();
    seconds.saturating_mul(1_000).saturating_add(u64::from(now.nanoseconds / 1_000_000))
}

/// The id of an offload that is made at a time, in milliseconds since 1970.
pub(crate) fn id_of(milliseconds: u64, random: u128) -> String {
    Ulid::from_parts(milliseconds.into(), random).to_string()
}

/// The text of an error of the filter.
pub(crate) fn sentence(error: Error) -> String {
    match error {
        Error::Settings(text) | Error::Id(text) | Error::ToolResult(text) | Error::Digests(text) => text,
    }
}
