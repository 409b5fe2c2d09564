//! What becomes of a message from the server.

use std::rc::Rc;

use bytes::Bytes;
use lro_mcp::{INTERNAL_ERROR, Id, Kind, Message, error_response, looks_like_tool_result, method};
use lro_reading::tool::reads_offloads;

use crate::asked::{Asked, Call, List, Wanted};
use crate::bindings::lro::adapter::filter::{self, Abilities, Outcome, Request};
use crate::bindings::lro::adapter::messages;
use crate::bindings::lro::http::store;
use crate::bindings::wasi::http::types::Fields;
use crate::bindings::wasi::random0_3_0::random::get_random_u64;
use crate::held;
use crate::own::Own;
use crate::settings::{Settings, id_of, milliseconds, sentence};

/// What begins a response.
const VERSION: &str = r#"{"jsonrpc":"2.0","#;

/// A request, and what is still to be answered of it.
pub(crate) struct Exchange {
    pub(crate) settings: Rc<Settings>,
    pub(crate) asked: Asked,
    /// Session of the client.
    session: Option<String>,
}

/// What becomes of a message.
pub(crate) enum Decided {
    /// It goes on.
    Pass,
    /// This goes on.
    Replace(Bytes),
    /// Errors go on, for the requests that it might be taken to answer.
    Refuse { errors: Vec<Bytes>, reason: String },
}

impl Exchange {
    /// `headers` are those of the request.
    pub(crate) fn new(settings: Rc<Settings>, headers: &Fields, asked: Asked) -> Self {
        let session = headers.get("mcp-session-id").pop().and_then(|id| String::from_utf8(id).ok());
        Self { settings, asked, session }
    }

    /// Decides about a message, or a batch of them.
    pub(crate) fn decide(&mut self, bytes: &Bytes) -> Decided {
        let message = Message::read(bytes.clone()).without_marks();
        let decided = self.decide_read(&message);
        match decided {
            Decided::Pass if message.bytes().len() != bytes.len() => Decided::Replace(message.bytes().clone()),
            decided => decided,
        }
    }

    /// Decides about a message that is held elsewhere; `None` if it is anything but the answer to a call.
    pub(crate) fn decide_held(&mut self, message: &messages::Message) -> Option<Decided> {
        let id = Id::of_json(&message.response_id()?);
        let call = self.asked.take_call(&id)?;
        let reply = self.filtered_held(message, &call);
        let decided = reply.map(|reply| reply.map_or(Decided::Pass, |reply| Decided::Replace(reply.into())));
        Some(decided.unwrap_or_else(|error| unreadable(Some(&id), &error)))
    }

    fn decide_read(&mut self, message: &Message) -> Decided {
        match (message.kind(), message.fault()) {
            (_, Some(fault)) => {
                let reason = format!("the server answered with something that is not a JSON-RPC message: {fault}");
                Decided::Refuse { errors: self.errors(message, &reason), reason }
            }
            (Kind::Response, _) => self.response(message),
            (Kind::Batch, _) => self.batch(message),
            (Kind::Notification, _) if message.method().as_deref() == Some(method::TASK_STATUS) => {
                let filtered = self.task(message, &["params", "result"]);
                filtered.unwrap_or_else(|_| Decided::Replace(message.without_data()))
            }
            _ => Decided::Pass,
        }
    }

    /// Errors for all requests that some reader could take a message to answer.
    fn errors(&mut self, message: &Message, reason: &str) -> Vec<Bytes> {
        let mut errors = Vec::new();
        message.each_id(&mut |id| {
            let open = self.asked.take(&id);
            errors.extend(open.map(|(id, _)| error_response(Some(&id), INTERNAL_ERROR, reason)));
        });
        errors
    }

    fn batch(&mut self, message: &Message) -> Decided {
        let (mut elements, mut is_changed) = (Vec::new(), false);
        for element in message.batch().into_iter().flatten() {
            match self.decide(&element) {
                Decided::Pass => elements.push(element),
                Decided::Replace(other) => {
                    elements.push(other);
                    is_changed = true;
                }
                Decided::Refuse { errors, .. } => {
                    elements.extend(errors);
                    is_changed = true;
                }
            }
        }
        match (is_changed, elements.is_empty()) {
            (false, _) => Decided::Pass,
            (true, false) => Decided::Replace(batch_of(&elements)),
            (true, true) => {
                let reason = "the server answered with something that is not a JSON-RPC message".to_owned();
                Decided::Refuse { errors: Vec::new(), reason }
            }
        }
    }

    fn response(&mut self, message: &Message) -> Decided {
        let wanted = message.id().and_then(|id| self.asked.take(&id)).map(|(_, wanted)| wanted);
        let id = message.id();
        let decided = match wanted {
            Some(Wanted::List { list, is_modern, .. }) if message.result().is_none() => {
                let own = self.settings.own.as_ref();
                let listed = own.and_then(|own| own.instead_of_missing(message, list, is_modern));
                return listed.map_or(Decided::Pass, Decided::Replace);
            }
            _ if message.result().is_none() => return Decided::Pass,
            Some(Wanted::Call(call)) => self.call(message, &call),
            Some(Wanted::Task) if !looks_like_tool_result(message) => self.task(message, &["result", "result"]),
            // What answers no request of these may answer a call: streams are resumed in other requests.
            None => self.call(message, &Call::default()),
            // Clients may read an answer to anything as the result of a call.
            _ if looks_like_tool_result(message) => self.call(message, &Call::default()),
            Some(Wanted::List { list: List::Tools, is_first_page, .. }) => self.tools(message, is_first_page),
            Some(Wanted::List { list: List::Templates, is_first_page: true, .. }) => {
                return self.with_own(|own| own.templates(message));
            }
            Some(Wanted::Greeting) => return self.with_own(|own| own.greeting(message)),
            _ => return Decided::Pass,
        };
        decided.unwrap_or_else(|error| unreadable(id.as_ref(), &error))
    }

    /// What the gateway adds to, if anything can be read back.
    fn with_own(&self, add: impl FnOnce(&Own) -> Bytes) -> Decided {
        self.settings.own.as_ref().map_or(Decided::Pass, |own| Decided::Replace(add(own)))
    }

    /// The tools, with output schemas that are true of what replaces a result, and on the first page the gateway's own.
    fn tools(&self, message: &Message, is_first_page: bool) -> Result<Decided, String> {
        let is_taken = || lro_mcp::listed_tools(message).iter().any(|tool| reads_offloads(&tool.name));
        let own = self.settings.own.as_ref().filter(|_| is_first_page && !is_taken());
        let more = own.map(|own| own.tools.as_slice()).unwrap_or_default();
        let list = message.value(&["result"]).unwrap_or_default();
        let list = std::str::from_utf8(&list).map_err(|error| error.to_string())?;
        Ok(match filter::tools_list(&self.settings.filter, list, more) {
            Ok(changed) if changed != list => Decided::Replace(message.with_bytes(&["result"], changed.as_bytes())),
            // A list without tools is none to change.
            Ok(_) | Err(_) => Decided::Pass,
        })
    }

    /// A response with the result of a tool. All of it is filtered: clients may read more than the result.
    fn call(&self, message: &Message, call: &Call) -> Result<Decided, String> {
        let text = std::str::from_utf8(message.bytes()).map_err(|error| error.to_string())?;
        let is_versioned = message.value(&["jsonrpc"]).is_some();
        let reply = match text.trim_start().strip_prefix('{').filter(|_| !is_versioned) {
            None => self.filtered(text, call)?,
            // The filter knows a response by its version.
            Some(members) => {
                let reply = self.filtered(&[VERSION, members].concat(), call)?;
                reply.map(|reply| reply.strip_prefix(VERSION).map(|members| ["{", members].concat()).unwrap_or(reply))
            }
        };
        Ok(reply.map_or(Decided::Pass, |reply| Decided::Replace(reply.into())))
    }

    /// A message with the result of a task at a path.
    fn task(&self, message: &Message, path: &[&str]) -> Result<Decided, String> {
        let Some(result) = message.value(path).filter(|result| result != "null") else { return Ok(Decided::Pass) };
        let text = std::str::from_utf8(&result).map_err(|error| error.to_string())?;
        let reply = self.filtered(text, &Call::default())?;
        Ok(reply.map_or(Decided::Pass, |reply| Decided::Replace(message.with_bytes(path, reply.as_bytes()))))
    }

    /// Filters the result of a tool, or a response with one. Returns what replaces it.
    fn filtered(&self, text: &str, call: &Call) -> Result<Option<String>, String> {
        self.filtered_held(&held::of_bytes(text.as_bytes(), 0), call)
    }

    fn filtered_held(&self, message: &messages::Message, call: &Call) -> Result<Option<String>, String> {
        let Settings { filter: settings, tenant, shown_directory, own, .. } = &*self.settings;
        let id = id_of(milliseconds(), u128::from(get_random_u64()) << 64 | u128::from(get_random_u64()));
        let shell = if shown_directory.is_empty() { Abilities::empty() } else { Abilities::SHELL };
        let tools = Abilities::EXTRACT_TOOL | Abilities::READ_TOOL;
        let abilities = if own.is_some() { shell | tools } else { shell };
        let request = Request {
            shown_path: format!("{shown_directory}/{tenant}/{id}"),
            id,
            tenant: tenant.clone(),
            session: self.session.clone(),
            tool: call.tool.clone(),
            query: call.query.clone(),
            input_schema: None,
            abilities,
            reader_limit: None,
            descriptor_room: None,
            settings: settings.clone(),
        };
        let mut reply = filter::filter(&request, message.number()).map_err(sentence)?;
        if reply.outcome != Outcome::Offload {
            store::discard();
        } else if let Err(error) = store::publish(tenant, &request.id, &self.settings.bounds()) {
            reply = filter::failed(&request, message.number(), &error, true).map_err(sentence)?;
        }
        Ok(reply.tool_result)
    }

    /// The error for the one request of the client, if it is still open.
    pub(crate) fn fail(&mut self, reason: &str) -> Option<Bytes> {
        self.asked.take_only().map(|id: Id| error_response(Some(&id), INTERNAL_ERROR, reason))
    }
}

/// A batch of these messages.
pub(crate) fn batch_of(messages: &[Bytes]) -> Bytes {
    [&b"["[..], &messages.join(&b","[..]), b"]"].concat().into()
}

/// The error in place of a response that cannot be read.
fn unreadable(id: Option<&Id>, error: &str) -> Decided {
    let text = format!("cannot read the response of the server: {error}");
    Decided::Replace(error_response(id, INTERNAL_ERROR, &text))
}
