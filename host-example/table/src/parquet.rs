//! Writes records as a Parquet file, with a column for each field.

use std::io::{Read, Seek, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::columns::{Columns, text};
use crate::{TableError, each_record};

/// Bytes of records and number of cells that are written together, and held in memory for that: 4 MiB, and as many cells as take
/// 16 MiB.
const GROUP_BYTES: usize = 4 << 20;
const GROUP_CELLS: usize = 1 << 20;

/// Decimal digits that a double keeps, whatever the number.
const DOUBLE_DIGITS: usize = 15;

/// The type of a column: the narrowest that keeps all of its values as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    /// Integers that doubles hold too.
    ShortInteger,
    Integer,
    Double,
    Text,
    /// Any values, as JSON.
    Json,
}

impl Kind {
    /// The kind of a value; `None` for null.
    fn of(json: &str) -> Option<Self> {
        match json.bytes().next()? {
            b'n' => None,
            b't' | b'f' => Some(Self::Boolean),
            b'"' => Some(Self::Text),
            b'-' | b'0'..=b'9' => Some(Self::of_number(json)),
            _ => Some(Self::Json),
        }
    }

    fn of_number(json: &str) -> Self {
        let mantissa = json.split(['e', 'E']).next().unwrap_or_default();
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
        match (json.parse::<i64>(), json.parse::<f64>()) {
            (Ok(_), _) if json == "-0" => Self::Double,
            (Ok(_), _) if digits <= DOUBLE_DIGITS => Self::ShortInteger,
            (Ok(_), _) => Self::Integer,
            (Err(_), Ok(number)) if number.is_finite() && (digits <= DOUBLE_DIGITS || number.to_string() == json) => {
                Self::Double
            }
            _ => Self::Json,
        }
    }

    fn with(self, other: Self) -> Self {
        match (self, other) {
            (one, same) if one == same => one,
            (Self::ShortInteger, wide @ (Self::Integer | Self::Double))
            | (wide @ (Self::Integer | Self::Double), Self::ShortInteger) => wide,
            _ => Self::Json,
        }
    }

    fn physical(self) -> Physical {
        match self {
            Self::Boolean => Physical::BOOLEAN,
            Self::ShortInteger | Self::Integer => Physical::INT64,
            Self::Double => Physical::DOUBLE,
            Self::Text | Self::Json => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Self::Text => Some(LogicalType::String),
            Self::Json => Some(LogicalType::Json),
            _ => None,
        }
    }
}

/// Writes the file.
pub(crate) fn write(
    columns: &Columns,
    kinds: &[Kind],
    records: &mut (impl Read + Seek),
    out: &mut (dyn Write + Send),
) -> Result<(), TableError> {
    let schema = schema(columns.names(), kinds)?;
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(WriterProperties::default()))?;
    let mut group = String::new();
    let mut cells = 0;
    each_record(records, |line| -> Result<(), TableError> {
        if group.len() + line.len() > GROUP_BYTES || cells + kinds.len() > GROUP_CELLS {
            write_group(&mut writer, columns, kinds, &group)?;
            group.clear();
            cells = 0;
        }
        group.push_str(line);
        group.push('\n');
        cells += kinds.len();
        Ok(())
    })?;
    write_group(&mut writer, columns, kinds, &group)?;
    writer.close()?;
    Ok(())
}

/// The types of the columns.
pub(crate) fn kinds(columns: &Columns, records: &mut (impl Read + Seek)) -> Result<Vec<Kind>, TableError> {
    let mut kinds = vec![None::<Kind>; columns.names().len()];
    each_record(records, |line| -> Result<(), TableError> {
        for (kind, value) in kinds.iter_mut().zip(columns.values(line)) {
            *kind = [*kind, value.and_then(Kind::of)].into_iter().flatten().reduce(Kind::with);
        }
        Ok(())
    })?;
    Ok(kinds.into_iter().map(|kind| kind.unwrap_or(Kind::Json)).collect())
}

/// Writes a group of rows, column by column.
fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &Columns,
    kinds: &[Kind],
    lines: &str,
) -> Result<(), TableError> {
    let rows: Vec<Vec<Option<&str>>> = lines.lines().map(|line| columns.values(line)).collect();
    let mut group = writer.next_row_group()?;
    for (number, kind) in kinds.iter().enumerate() {
        let Some(mut column) = group.next_column()? else { break };
        write_column(&mut column, *kind, rows.iter().map(|row| row.get(number).copied().flatten()))?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

fn schema(names: &[String], kinds: &[Kind]) -> Result<TypePtr, ParquetError> {
    let column = |(name, kind): (&String, &Kind)| {
        let column = Type::primitive_type_builder(name, kind.physical()).with_repetition(Repetition::OPTIONAL);
        column.with_logical_type(kind.logical()).build().map(Arc::new)
    };
    let columns = names.iter().zip(kinds).map(column).collect::<Result<_, _>>()?;
    Type::group_type_builder("results").with_fields(columns).build().map(Arc::new)
}

fn write_column<'a>(
    column: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    cells: impl Iterator<Item = Option<&'a str>>,
) -> Result<(), ParquetError> {
    let cells = cells.map(|cell| cell.filter(|json| *json != "null"));
    match kind {
        Kind::Boolean => write_cells::<BoolType>(column, cells, |json| Ok(json == "true")),
        Kind::ShortInteger | Kind::Integer => {
            write_cells::<Int64Type>(column, cells, |json| json.parse().map_err(invalid))
        }
        Kind::Double => write_cells::<DoubleType>(column, cells, |json| json.parse().map_err(invalid)),
        Kind::Text => write_cells::<ByteArrayType>(column, cells, |json| Ok(ByteArray::from(text(json).as_ref()))),
        Kind::Json => write_cells::<ByteArrayType>(column, cells, |json| Ok(ByteArray::from(json))),
    }
}

/// The error for a value that cannot be read as the type of its column.
fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

fn write_cells<'a, T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<&'a str>>,
    value: impl Fn(&str) -> Result<T::T, ParquetError>,
) -> Result<(), ParquetError> {
    // A definition level says whether a cell has a value.
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell.map(&value).transpose()?);
    }
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    Ok(())
}
