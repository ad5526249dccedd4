//! GGUF files: the facts about a model, and its weights row by row.
//!
//! The file may come from anywhere, so nothing in it is believed: every length is checked against what is left of the
//! file before anything is kept. It is read rather than mapped, because the truncation of a mapped file ends the
//! process.

mod blocks;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

pub use blocks::Encoding;

const MAGIC: [u8; 4] = *b"GGUF";
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;
const MAX_ENTRIES: u64 = 1 << 16;
const MAX_TENSORS: u64 = 1 << 16;
const MAX_STRING_BYTES: u64 = 8 << 20;
const MAX_LIST_ITEMS: u64 = 4 << 20;
const MAX_LIST_DEPTH: usize = 2;
const MAX_DIMENSIONS: u32 = 4;
const MAX_ALIGNMENT: u64 = 1 << 16;
const DEFAULT_ALIGNMENT: u64 = 32;
/// Weights of one tensor; more than any model that would run here has.
const MAX_ELEMENTS: u64 = 1 << 34;
/// Bytes read from the file at a time.
const READ_BYTES: usize = 1 << 20;

/// Why a file is no model that can be used.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("the file is not GGUF")]
    Magic,
    #[error("the file is GGUF version {0}, which is not supported")]
    Version(u32),
    #[error("the file ends too early, or one of its lengths is not possible; download it again")]
    Length,
    #[error("the file holds text that is not UTF-8")]
    Text,
    #[error("the file has a value of the unknown type {0}")]
    Kind(u32),
    #[error("the file's tensor `{0}` has a shape that is not possible")]
    Shape(String),
    #[error("the file's tensor `{name}` has an encoding that is not supported ({encoding})")]
    Encoding { name: String, encoding: u32 },
    #[error("the file has no tensor `{0}`")]
    NoTensor(String),
    #[error("the file has no usable `{0}`")]
    NoEntry(String),
}

/// A fact about the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Whole(i128),
    Number(f64),
    Flag(bool),
    Text(String),
    List(Vec<Value>),
}

/// The place and shape of a tensor's weights. A row is what runs along the first dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    pub columns: usize,
    pub rows: usize,
    encoding: Encoding,
    offset: u64,
}

/// An open file.
#[derive(Debug)]
pub struct Gguf {
    file: File,
    entries: HashMap<String, Value>,
    tensors: HashMap<String, Tensor>,
}

impl Gguf {
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut reader =
            GgufReader { inner: BufReader::with_capacity(READ_BYTES, &mut file), read: 0, length };
        let (entries, tensors) = header(&mut reader)?;
        Ok(Self { file, entries, tensors })
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        let Value::Text(text) = self.get(key)? else { return None };
        Some(text)
    }

    pub fn integer<T: TryFrom<i128>>(&self, key: &str) -> Option<T> {
        let Value::Whole(number) = self.get(key)? else { return None };
        T::try_from(*number).ok()
    }

    pub fn number(&self, key: &str) -> Option<f32> {
        let Value::Number(number) = self.get(key)? else { return None };
        Some(*number as f32)
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        let Value::Flag(flag) = self.get(key)? else { return None };
        Some(*flag)
    }

    pub fn list(&self, key: &str) -> Option<&[Value]> {
        let Value::List(list) = self.get(key)? else { return None };
        Some(list)
    }

    pub fn tensor(&self, name: &str) -> Result<&Tensor, GgufError> {
        self.tensors.get(name).ok_or_else(|| GgufError::NoTensor(name.into()))
    }

    /// Hands each row of a tensor to `take`, in order.
    pub fn rows(&mut self, name: &str, mut take: impl FnMut(&[f32])) -> Result<(), GgufError> {
        let tensor = self.tensor(name)?.clone();
        self.file.seek(SeekFrom::Start(tensor.offset))?;
        let mut reader = BufReader::with_capacity(READ_BYTES, &mut self.file);
        let mut bytes = vec![0; tensor.encoding.row_bytes(tensor.columns)];
        let mut values = vec![0.0; tensor.columns];
        for _ in 0..tensor.rows {
            reader.read_exact(&mut bytes)?;
            tensor.encoding.decode(&bytes, &mut values);
            take(&values);
        }
        Ok(())
    }

    /// A tensor of one row.
    pub fn vector(&mut self, name: &str, columns: usize) -> Result<Vec<f32>, GgufError> {
        let tensor = self.tensor(name)?;
        if (tensor.columns, tensor.rows) != (columns, 1) {
            return Err(GgufError::Shape(name.into()));
        }
        let mut vector = Vec::new();
        self.rows(name, |row| vector.extend_from_slice(row))?;
        Ok(vector)
    }
}

type Header = (HashMap<String, Value>, HashMap<String, Tensor>);

fn header<R: Read>(reader: &mut GgufReader<R>) -> Result<Header, GgufError> {
    if reader.array::<4>()? != MAGIC {
        return Err(GgufError::Magic);
    }
    let version = reader.u32()?;
    if !VERSIONS.contains(&version) {
        return Err(GgufError::Version(version));
    }
    let tensor_count = reader.count(MAX_TENSORS)?;
    let entry_count = reader.count(MAX_ENTRIES)?;
    let mut entries = HashMap::new();
    for _ in 0..entry_count {
        let key = reader.text()?;
        let kind = reader.u32()?;
        entries.insert(key, reader.value(kind, 0)?);
    }
    let mut tensors = HashMap::new();
    for _ in 0..tensor_count {
        let (name, tensor) = reader.tensor()?;
        tensors.insert(name, tensor);
    }
    let alignment = match entries.get("general.alignment") {
        Some(Value::Whole(number)) => u64::try_from(*number).unwrap_or(0),
        Some(_) | None => DEFAULT_ALIGNMENT,
    };
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        return Err(GgufError::NoEntry("general.alignment".into()));
    }
    let start = reader.read.next_multiple_of(alignment);
    for (name, tensor) in &mut tensors {
        place(tensor, start, reader.length).ok_or_else(|| GgufError::Shape(name.clone()))?;
    }
    Ok((entries, tensors))
}

/// Makes the offset one into the file, if all of the tensor is in there.
fn place(tensor: &mut Tensor, start: u64, length: u64) -> Option<()> {
    let row = u64::try_from(tensor.encoding.row_bytes(tensor.columns)).ok()?;
    let bytes = row.checked_mul(u64::try_from(tensor.rows).ok()?)?;
    tensor.offset = tensor.offset.checked_add(start)?;
    (tensor.offset.checked_add(bytes)? <= length).then_some(())
}

/// Reads the header and counts, so that no length can lead past the end of the file.
struct GgufReader<R> {
    inner: R,
    read: u64,
    length: u64,
}

impl<R: Read> GgufReader<R> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.advance(N as u64)?;
        self.inner.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn advance(&mut self, bytes: u64) -> Result<(), GgufError> {
        let read = self.read.checked_add(bytes).filter(|read| *read <= self.length);
        self.read = read.ok_or(GgufError::Length)?;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn count(&mut self, max: u64) -> Result<u64, GgufError> {
        let count = self.u64()?;
        if count <= max { Ok(count) } else { Err(GgufError::Length) }
    }

    fn text(&mut self) -> Result<String, GgufError> {
        let length = self.count(MAX_STRING_BYTES)?;
        self.advance(length)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| GgufError::Length)?];
        self.inner.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| GgufError::Text)
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, GgufError> {
        Ok(match kind {
            0 => Value::Whole(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Whole(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Whole(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Whole(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Whole(self.u32()?.into()),
            5 => Value::Whole(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Number(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Flag(self.array::<1>()? != [0]),
            8 => Value::Text(self.text()?),
            9 => self.list(depth)?,
            10 => Value::Whole(self.u64()?.into()),
            11 => Value::Whole(i64::from_le_bytes(self.array()?).into()),
            12 => Value::Number(f64::from_le_bytes(self.array()?)),
            unknown => return Err(GgufError::Kind(unknown)),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Value, GgufError> {
        if depth == MAX_LIST_DEPTH {
            return Err(GgufError::Length);
        }
        let kind = self.u32()?;
        let count = self.count(MAX_LIST_ITEMS)?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.value(kind, depth + 1)?);
        }
        Ok(Value::List(list))
    }

    fn tensor(&mut self) -> Result<(String, Tensor), GgufError> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        let mut shape = [1_u64; MAX_DIMENSIONS as usize];
        let Some(used) = shape.get_mut(..dimensions as usize).filter(|used| !used.is_empty()) else {
            return Err(GgufError::Shape(name));
        };
        for size in used {
            *size = self.u64()?;
        }
        let encoding = self.u32()?;
        let offset = self.u64()?;
        let Some(encoding) = Encoding::from_number(encoding) else {
            return Err(GgufError::Encoding { name, encoding });
        };
        let elements = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let [columns, ..] = shape;
        let block = encoding.block() as u64;
        let valid = elements.is_some_and(|count| count <= MAX_ELEMENTS) && columns % block == 0;
        let rows = elements.and_then(|count| count.checked_div(columns)).filter(|_| valid && columns > 0);
        match (usize::try_from(columns), rows.and_then(|rows| usize::try_from(rows).ok())) {
            (Ok(columns), Some(rows)) => Ok((name, Tensor { columns, rows, encoding, offset })),
            _ => Err(GgufError::Shape(name)),
        }
    }
}
