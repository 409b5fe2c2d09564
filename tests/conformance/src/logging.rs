//! Log messages during a call, at the level that the client requests.

use std::sync::Mutex;
use std::time::Duration;

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProtocolVersion};
use serde_json::json;
use tokio::time::sleep;

use crate::call::{Call, Outcome, internal, text};

/// The minimum log level of a session: all messages until the client sets one.
pub(crate) struct Level(Mutex<LoggingLevel>);

impl Default for Level {
    fn default() -> Self {
        Self(Mutex::new(LoggingLevel::Debug))
    }
}

impl Level {
    pub(crate) fn set(&self, level: LoggingLevel) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = level;
    }

    fn get(&self) -> LoggingLevel {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The minimum log level of this call. A request without a session has to request log messages.
    fn of(&self, call: &Call) -> Option<LoggingLevel> {
        let stands_alone =
            call.context.protocol_version().as_ref().is_some_and(|version| !ProtocolVersion::has_initialize(version));
        if stands_alone { call.context.meta.log_level() } else { Some(self.get()) }
    }
}

/// Logs three messages during the call.
pub(crate) async fn call_with_logging(call: &Call, level: &Level) -> Outcome {
    let wanted = level.of(call).is_some_and(|level| level as u8 <= LoggingLevel::Info as u8);
    for (index, message) in
        ["Tool execution started", "Tool processing data", "Tool execution completed"].into_iter().enumerate()
    {
        if index > 0 {
            sleep(Duration::from_millis(50)).await;
        }
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(message));
            call.context.peer.notify_logging_message(message).await.map_err(internal)?;
        }
    }
    Ok(text("Logged three times").into())
}
