//! Why a text is not what its head promised.

use lro_json::SyntaxErrorKind;
use thiserror::Error as ThisError;

use super::{
    COLUMNS_MAX, ELEMENT_BYTES_MAX, LINE_BYTES_MAX, NAME_BYTES_MAX, PARALLEL_BYTES_MAX, SAMPLE_BYTES_MAX,
    TOKEN_BYTES_MAX,
};

/// A text that does not keep its [`Form`](crate::Form), and how far it did.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("after {records} records: {fault}")]
pub struct ReadError {
    /// Records that were written before; the first rows of a table are written together.
    pub records: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Fault {
    /// A value is not JSON, or nests deeper than [`lro_json::DEPTH_MAX`].
    #[error("a value is not JSON: {0:?}")]
    Json(SyntaxErrorKind),
    /// The line goes on after a JSON value.
    #[error("text follows a JSON value on its line")]
    AfterValue,
    /// A text that was to hold one JSON document or one table holds another.
    #[error("a second document or table follows the first")]
    Second,
    /// Text follows the closing quote of a cell.
    #[error("text follows the closing quote of a cell")]
    AfterQuote,
    /// A quote follows white space at the beginning of a cell: it is unclear what it quotes.
    #[error("a quote follows white space at the beginning of a cell")]
    LateQuote,
    /// The text ends inside quotes.
    #[error("the text ends inside quotes")]
    OpenQuote,
    /// A carriage return outside quotes without a line feed after it.
    #[error("a carriage return stands without a line feed")]
    CarriageReturn,
    /// The first row of a table, which says how many columns there are, is too long.
    #[error("the first row is longer than {SAMPLE_BYTES_MAX} bytes")]
    FirstRow,
    /// The first row has too many cells.
    #[error("the first row has more than {COLUMNS_MAX} cells")]
    Columns,
    /// The name of a column is too long.
    #[error("the name of a column is longer than {NAME_BYTES_MAX} bytes")]
    Name,
    /// A row does not stand below the names or the rule of its table or has not as many values, or a cell goes over
    /// several lines.
    #[error("a row does not fit the columns of its table")]
    Misaligned,
    /// A table shows dots where its printer left out rows or columns.
    #[error("the table leaves out rows or columns")]
    Omitted,
    /// A document of parallel arrays, which has to be held in memory, is too long.
    #[error("parallel arrays take more than {PARALLEL_BYTES_MAX} bytes")]
    Parallel,
    /// Python's text has something that JSON cannot say, such as a set or `datetime(…)`, or is not a literal.
    #[error("a Python literal has no form in JSON")]
    Literal,
    /// YAML beyond lists of maps, strings, numbers, booleans and null: anchors, tags, flow collections; or no YAML.
    #[error("the YAML is more than a list of plain maps")]
    Yaml,
    /// XML that is not well-formed, or has a `DOCTYPE` with definitions, or names of characters that need one.
    #[error("the XML is not well-formed, or needs a document type")]
    Markup,
    /// A cell of HTML stands in several rows or columns.
    #[error("a cell stands in several rows or columns")]
    Span,
    /// HTML has a name of a character that is not one of the common ones, or a number that is not a character.
    #[error("a reference to a character is not known")]
    Reference,
    /// Text stands between the elements of a record or the cells of a row, which an object has no place for.
    #[error("text stands between the elements of a record or the cells of a row")]
    Mixed,
    /// A tag, comment or CDATA section is too long.
    #[error("a tag or comment is longer than {TOKEN_BYTES_MAX} bytes")]
    Token,
    /// An element that is a record, or a cell of HTML, is too long.
    #[error("a record takes more than {ELEMENT_BYTES_MAX} bytes of memory")]
    Element,
    /// Containers are nested too deep.
    #[error("containers are nested too deep")]
    Depth,
    /// The text ends in the middle of a value.
    #[error("the text ends in the middle of a value")]
    End,
    /// An item of a YAML list is too long.
    #[error("an item is longer than {LINE_BYTES_MAX} bytes")]
    Item,
    /// Too many lines of JSON Lines are something else, or there are fewer than two objects and arrays.
    #[error("fewer than 9 of 10 lines are JSON objects or arrays")]
    Lines,
    /// A line is too long for a form that has to see whole lines.
    #[error("a line is longer than {LINE_BYTES_MAX} bytes")]
    Line,
}

/// Why a [`Reader`](crate::Reader) stopped.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error<E> {
    /// The text does not keep its form.
    #[error(transparent)]
    Text(#[from] ReadError),
    /// The output failed with this error.
    #[error("output failed: {0}")]
    Output(E),
}
