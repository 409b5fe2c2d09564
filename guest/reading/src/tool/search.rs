//! The arguments of a search, and of lines by their numbers.

use lro_contract::query::QueryError;
use lro_contract::query::document::{Members, Node};

use super::Failure;
use crate::{LineRange, Pattern, Question, Search};

/// What `lines` is.
const RANGE: &str = "two line numbers such as [10, 40], from 1, or [-5, -1] for the last five";

/// Takes a search or a range of lines. Fails if other members are left then.
pub(super) fn take(members: &mut Members<'_>) -> Result<Option<Question>, Failure> {
    let range = members.take("lines").map(|node| range(&node)).transpose()?;
    let text = members.text("search")?;
    let (regex, words, rank) = (members.boolean("regex")?, members.boolean("words")?, members.boolean("rank")?);
    let mut count = |name| members.take(name).map(|node| node.count::<u32>()).transpose();
    let (before, after, context) = (count("before")?, count("after")?, count("context")?);
    let has_context = before.or(after).or(context).is_some();
    let question = match (text, range) {
        (None, _) if regex || words || rank || has_context => {
            let message = "`regex`, `words`, `rank`, `before`, `after` and `context` go with `search` only";
            return Err(Failure::Tool(message.to_owned()));
        }
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(Failure::Tool("give `search` or `lines`, not both".to_owned())),
        (None, Some(range)) => Question::Lines(range),
        (Some(_), None) if context.is_some() && before.or(after).is_some() => {
            return Err(Failure::Tool("`context` is both `before` and `after`: give it, or them".to_owned()));
        }
        (Some(text), None) => {
            let pattern = match (regex, words || rank) {
                (true, true) => {
                    return Err(Failure::Tool("`regex` goes without `words` and `rank`".to_owned()));
                }
                (true, false) => Pattern::Regex(text),
                (false, true) => Pattern::words(&text),
                (false, false) => Pattern::Literal(text),
            };
            Question::Search(Search {
                pattern,
                ignore_case: members.boolean("ignore_case")?,
                before: before.or(context).unwrap_or(0),
                after: after.or(context).unwrap_or(0),
                rank,
                count: members.boolean("count")?,
                offset: members.take("offset").map_or(Ok(0), |node| node.count())?,
                limit: members.take("limit").map(|node| node.count()).transpose()?,
            })
        }
    };
    let others = members.names();
    if !others.is_empty() {
        let name = if matches!(question, Question::Lines(_)) { "lines" } else { "search" };
        return Err(Failure::Tool(format!("`{name}` goes without {}", others.join(", "))));
    }
    Ok(Some(question))
}

fn range(node: &Node<'_>) -> Result<LineRange, QueryError> {
    match node.elements()?.as_slice() {
        [first, last] => Ok(LineRange { first: first.integer()?, last: last.integer()? }),
        _ => Err(node.unexpected(RANGE)),
    }
}
