//! Pages of the lists of a server that does not page them itself.
//!
//! The server is asked for the whole list for every page, so a cursor needs no memory: it names an item and the digest of
//! the list, and either continues that list or is refused.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use lro_host::mcp::{self, INVALID_PARAMS, Message, Params, WholeList, method};
use lro_host::read::{CursorKey, ListCursor};
use lro_host::store::Digest;

use super::Session;
use super::pending::Call;

/// Error for a cursor that neither the gateway nor the server made for this list.
const WRONG: &str = "invalid cursor: it was not made for this list; pass `nextCursor` of the previous page unchanged, or begin without a cursor";

/// Error for a cursor of a list that is not the same any more.
const CHANGED: &str = "invalid cursor: the list has changed since; begin again without a cursor";

/// A list of a server.
#[derive(Debug)]
struct List {
    method: &'static str,
    /// Its member of the result.
    member: &'static str,
    /// Its bit in [`KnownLists`].
    bit: u8,
}

static LISTS: [List; 4] = [
    List { method: method::TOOLS_LIST, member: "tools", bit: 1 },
    List { method: method::RESOURCES_LIST, member: "resources", bit: 2 },
    List { method: method::RESOURCE_TEMPLATES_LIST, member: "resourceTemplates", bit: 4 },
    List { method: method::PROMPTS_LIST, member: "prompts", bit: 8 },
];

/// What all sessions of a gateway know of the lists.
#[derive(Debug, Default)]
pub(crate) struct KnownLists {
    /// Read on first use.
    key: OnceLock<CursorKey>,
    /// The lists, a bit each, that the server answered whole.
    whole: AtomicU8,
}

/// The page of a list that a client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListPage {
    list: &'static List,
    /// Where it begins; `None` at the beginning.
    cursor: Option<ListCursor>,
}

impl Session {
    /// The page that a request asks for, if the gateway may have to page the list: `None` for a cursor of the server.
    ///
    /// # Errors
    /// The reason why the cursor is wrong.
    pub(super) fn asked_page(&self, message: &Message, params: &Params<'_>) -> Result<Option<ListPage>, &'static str> {
        let method = message.method();
        let Some(list) = LISTS.iter().find(|list| method.as_deref() == Some(list.method)) else { return Ok(None) };
        let Some(key) = self.list_key() else { return Ok(None) };
        let Some(cursor) = params.cursor.map(|cursor| cursor.get()).filter(|cursor| *cursor != "null") else {
            return Ok(Some(ListPage { list, cursor: None }));
        };
        let text: String = serde_json::from_str(cursor).unwrap_or_default();
        if let Ok(cursor) = key.open_list(self.tenant(), list.method, &text) {
            return Ok(Some(ListPage { list, cursor: Some(cursor) }));
        }
        if self.rules.lists.whole.load(Ordering::Relaxed) & list.bit == 0 { Ok(None) } else { Err(WRONG) }
    }

    /// The page of an answer with a whole list; any other answer as it is.
    pub(super) fn paged(&self, call: &Call, answer: Bytes) -> Bytes {
        let (Some(page), Some(size)) = (call.page, self.rules.config.gateway.list_page_size) else { return answer };
        let message = Message::read(answer.clone());
        let wrong = |reason| mcp::error_response(message.id().as_ref(), INVALID_PARAMS, reason);
        let whole = &self.rules.lists.whole;
        let Some(list) = WholeList::of(&message, page.list.member) else {
            if message.result().is_none() {
                return answer;
            }
            whole.fetch_and(!page.list.bit, Ordering::Relaxed);
            return if page.cursor.is_some() { wrong(CHANGED) } else { answer };
        };
        whole.fetch_or(page.list.bit, Ordering::Relaxed);
        let digest = Digest::of(list.json());
        let start = page.cursor.map_or(0, |cursor| cursor.item as usize);
        if page.cursor.is_some_and(|cursor| cursor.list != digest) {
            return wrong(CHANGED);
        }
        let end = list.len().min(start.saturating_add(size.get() as usize));
        let next = u32::try_from(end).ok().filter(|_| end < list.len()).zip(self.list_key());
        if start == 0 && next.is_none() {
            return answer;
        }
        let next =
            next.map(|(item, key)| key.sign_list(self.tenant(), page.list.method, &ListCursor { item, list: digest }));
        list.page(start..end, next.as_deref())
    }

    /// The key of the cursors; `None` when lists are not paged, or without a store.
    fn list_key(&self) -> Option<&CursorKey> {
        self.rules.config.gateway.list_page_size.filter(|_| self.rules.changes())?;
        let lists = &self.rules.lists;
        if lists.key.get().is_none() {
            let key = self.rules.filter.store.as_ref().ok()?.cursor_key();
            let key = key.inspect_err(|error| tracing::warn!(%error, "lists are not paged")).ok()?;
            let _ = lists.key.set(CursorKey::new(key));
        }
        lists.key.get()
    }
}
