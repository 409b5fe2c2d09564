//! What the messages of a request ask for.

use bytes::Bytes;
use lro_mcp::{Id, Kind, Message, method};

/// Longest arguments of a call that the policy is told, in bytes.
const QUERY_BYTES_MAX: usize = 16 << 10;

/// A call of a tool. Without a name where it is not known which.
#[derive(Default)]
pub(crate) struct Call {
    pub(crate) tool: String,
    /// Its arguments as JSON.
    pub(crate) query: Option<String>,
}

/// What one message asks for.
pub(crate) enum Wanted {
    Call(Call),
    /// `initialize` or `server/discover`.
    Greeting,
    /// A list that the gateway's own items are in.
    List {
        list: List,
        is_first_page: bool,
        is_modern: bool,
    },
    /// A task, which may have the result of a tool.
    Task,
    Other,
}

/// A list that the gateway's own items are in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Templates,
    Resources,
}

impl List {
    /// The member of the result with the items.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Templates => "resourceTemplates",
            Self::Resources => "resources",
        }
    }
}

/// The requests of a client that are not answered yet.
#[derive(Default)]
pub(crate) struct Asked {
    open: Vec<(Id, Wanted)>,
    /// The request, if there is but one.
    pub(crate) only: Option<Id>,
    /// Whether it is of revision 2026-07-28 or later, where streams cannot be resumed.
    pub(crate) is_modern: bool,
}

impl Asked {
    pub(crate) fn of(message: &Message) -> Self {
        let open = match message.kind() {
            Kind::Batch => {
                message.batch().into_iter().flatten().filter_map(|one| wanted(&Message::read(one))).collect()
            }
            _ => wanted(message).into_iter().collect(),
        };
        let only = message.id().filter(|_| message.kind() == Kind::Request);
        Self { open, only, is_modern: message.params().is_modern() }
    }

    /// What a response with this id answers, which is not open any more. Some readers take a number for the same as its text.
    pub(crate) fn take(&mut self, id: &Id) -> Option<(Id, Wanted)> {
        let place = |id: &Id| self.open.iter().position(|(open, _)| open == id);
        let found = place(id).or_else(|| place(&id.of_other_type()?))?;
        Some(self.open.swap_remove(found))
    }

    /// The call that a response with this id answers, which is not open any more; `None`, and nothing changes, if it answers anything
    /// else.
    pub(crate) fn take_call(&mut self, id: &Id) -> Option<Call> {
        match self.take(id)? {
            (_, Wanted::Call(call)) => Some(call),
            other => {
                self.open.push(other);
                None
            }
        }
    }

    /// The id of the one request, if it is still open.
    pub(crate) fn take_only(&mut self) -> Option<Id> {
        let only = self.only.clone()?;
        self.take(&only).map(|(id, _)| id)
    }
}

fn wanted(message: &Message) -> Option<(Id, Wanted)> {
    let id = message.id().filter(|_| message.kind() == Kind::Request)?;
    let list = |list| {
        let params = message.params();
        Wanted::List { list, is_first_page: params.cursor.is_none(), is_modern: params.is_modern() }
    };
    let wanted = match message.method().as_deref() {
        Some(method::TOOLS_CALL) => {
            let params = message.params();
            let query = params.arguments.map(|arguments| arguments.get().to_owned());
            let query = query.filter(|query| query.len() <= QUERY_BYTES_MAX);
            Wanted::Call(Call { tool: params.name.unwrap_or_default().into_owned(), query })
        }
        Some(method::INITIALIZE | method::DISCOVER) => Wanted::Greeting,
        Some(method::TOOLS_LIST) => list(List::Tools),
        Some(method::RESOURCE_TEMPLATES_LIST) => list(List::Templates),
        Some(method::RESOURCES_LIST) => list(List::Resources),
        Some(method::TASKS_GET | method::TASKS_RESULT) => Wanted::Task,
        _ => Wanted::Other,
    };
    Some((id, wanted))
}

/// Whether a body is none of this protocol: nothing in it could be a message.
pub(crate) fn is_foreign(message: &Message) -> bool {
    use lro_mcp::Fault::{NoKind, NotOne};
    match message.kind() {
        Kind::Batch => message.batch().is_some_and(|all| all.into_iter().all(is_no_message)),
        _ => matches!(message.fault(), Some(NoKind | NotOne)),
    }
}

fn is_no_message(bytes: Bytes) -> bool {
    Message::read(bytes).kind() == Kind::Other
}
