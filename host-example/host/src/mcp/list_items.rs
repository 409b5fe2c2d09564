//! The items of a list that comes in pages.

use std::collections::{HashSet, VecDeque};

use futures_util::stream::{Stream, try_unfold};

/// A page of a list, such as `tools` and `nextCursor` of an answer to `tools/list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    /// Its items.
    pub items: Vec<T>,
    /// Cursor of the next page. `None` at the end.
    pub next: Option<String>,
}

/// Why a list ends early.
#[derive(Debug, thiserror::Error)]
pub enum ListError<E> {
    /// A page cannot be fetched.
    #[error(transparent)]
    Fetch(E),
    /// The cursor of a next page is that of an earlier one: the list would never end.
    #[error("the server repeats the cursor {0:?}: its list would never end")]
    Repeated(String),
}

/// Returns the items of all pages of a list. `fetch` gets the cursor of a page, `None` for the first one.
///
/// The stream fetches a page when the one before it is used up, and ends after the last page or the first error. It
/// remembers the cursors it has followed, and ends with [`ListError::Repeated`] where the server repeats one.
///
/// ```
/// use std::io;
///
/// use futures_util::TryStreamExt;
/// use lro_host::mcp::{ListError, ListPage, list_items};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let tools = list_items(async |cursor: Option<String>| match cursor.as_deref() {
///     None => Ok(ListPage { items: vec!["search"], next: Some("2".to_owned()) }),
///     Some("2") => Ok(ListPage { items: vec!["fetch"], next: None }),
///     Some(_) => Err(io::Error::other("no such cursor")),
/// });
/// assert_eq!(tools.try_collect::<Vec<_>>().await?, ["search", "fetch"]);
/// # Ok::<(), ListError<io::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn list_items<T, E>(
    fetch: impl AsyncFnMut(Option<String>) -> Result<ListPage<T>, E>,
) -> impl Stream<Item = Result<T, ListError<E>>> {
    let walk = Walk { fetch, next: Some(None), followed: HashSet::new(), items: VecDeque::new() };
    try_unfold(walk, async |mut walk| Ok(walk.item().await?.map(|item| (item, walk))))
}

/// Where a stream of items is.
struct Walk<T, F> {
    fetch: F,
    /// Cursor of the next page. `None` after the last one, `Some(None)` before the first.
    next: Option<Option<String>>,
    followed: HashSet<String>,
    /// Items of the page that was fetched last.
    items: VecDeque<T>,
}

impl<T, F> Walk<T, F> {
    async fn item<E>(&mut self) -> Result<Option<T>, ListError<E>>
    where
        F: AsyncFnMut(Option<String>) -> Result<ListPage<T>, E>,
    {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(item));
            }
            let Some(cursor) = self.next.take() else { return Ok(None) };
            if let Some(repeated) = cursor.clone().filter(|cursor| !self.followed.insert(cursor.clone())) {
                return Err(ListError::Repeated(repeated));
            }
            let page = (self.fetch)(cursor).await.map_err(ListError::Fetch)?;
            self.items.extend(page.items);
            self.next = page.next.map(Some);
        }
    }
}
