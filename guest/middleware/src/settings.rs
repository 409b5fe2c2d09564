//! The settings, from environment variables.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::bindings::lro::adapter::filter::{self, Error};
use crate::bindings::wasi::cli0_3_0::environment::get_environment;

/// Most bytes of a message from the server, in JSON or as an event, unless `LRO_MESSAGE_BYTES` says otherwise.
const MESSAGE_BYTES_DEFAULT: usize = 64 << 20;

/// Most bytes of a message from the client, unless `LRO_REQUEST_BYTES` says otherwise.
const REQUEST_BYTES_DEFAULT: usize = 4 << 20;

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
}

impl Settings {
    /// The settings of this instance. The error names the variable at fault.
    pub(crate) fn of_environment() -> Result<Rc<Self>, String> {
        SETTINGS.with(|settings| settings.get_or_init(|| Self::read().map(Rc::new)).clone())
    }

    fn read() -> Result<Self, String> {
        let variables = get_environment();
        let of = |name: &str| variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let bytes = |name: &str, default| match of(name) {
            Some(text) => text.parse().map_err(|_| format!("{name} is `{text}`: expected a number of bytes")),
            None => Ok(default),
        };
        let settings = Self {
            filter: of("LRO_SETTINGS").unwrap_or_else(|| "{}".to_owned()),
            tenant: of("LRO_TENANT").unwrap_or_else(|| "default".to_owned()),
            shown_directory: of("LRO_SHOWN_DIR").unwrap_or_default(),
            message_bytes: bytes("LRO_MESSAGE_BYTES", MESSAGE_BYTES_DEFAULT)?,
            request_bytes: bytes("LRO_REQUEST_BYTES", REQUEST_BYTES_DEFAULT)?,
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
}

/// The text of an error of the filter.
pub(crate) fn sentence(error: Error) -> String {
    match error {
        Error::Settings(text) | Error::Id(text) | Error::ToolResult(text) => text,
    }
}
