//! The numbers of a network in a safetensors file: the length of a header, the header as JSON, and then the numbers,
//! each tensor where the header says.
//!
//! They are read rather than mapped: nearly all are laid out anew for the kernel, and a file that is truncated later
//! does no harm.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::load::EmbedderLoadError;

/// A header of a thousand tensors takes a tenth of it.
const MAX_HEADER_BYTES: u64 = 1 << 20;
const LENGTH_BYTES: u64 = 8;
const NUMBER_BYTES: usize = 4;
/// The prefix of names where the network was saved as a part of a larger one.
const PREFIX: &str = "bert.";

#[derive(Debug)]
pub(super) struct BertWeights {
    path: PathBuf,
    file: File,
    tensors: HashMap<String, WeightTensor>,
    /// The place at which the numbers begin, and the bytes that they take.
    start: u64,
    length: u64,
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    _metadata: Option<IgnoredAny>,
    #[serde(flatten)]
    tensors: HashMap<String, WeightTensor>,
}

#[derive(Debug, Deserialize)]
struct WeightTensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

impl BertWeights {
    pub(super) fn open(path: &Path) -> Result<Self, EmbedderLoadError> {
        let mut file = File::open(path).map_err(EmbedderLoadError::read(path))?;
        let whole = file.metadata().map_err(EmbedderLoadError::read(path))?.len();
        let mut length = [0; LENGTH_BYTES as usize];
        file.read_exact(&mut length).map_err(EmbedderLoadError::read(path))?;
        let header_bytes = u64::from_le_bytes(length);
        let after = whole.saturating_sub(LENGTH_BYTES);
        if header_bytes > MAX_HEADER_BYTES.min(after) {
            return Err(EmbedderLoadError::unfit(
                path,
                format!("its header would have {header_bytes} bytes"),
            ));
        }
        let mut header = Vec::new();
        let read = file.by_ref().take(header_bytes).read_to_end(&mut header);
        read.map_err(EmbedderLoadError::read(path))?;
        let header: Header = serde_json::from_slice(&header)
            .map_err(|error| EmbedderLoadError::unfit(path, error.to_string()))?;
        let (start, length) = (LENGTH_BYTES + header_bytes, after - header_bytes);
        Ok(Self { path: path.into(), file, tensors: header.tensors, start, length })
    }

    /// The numbers of one tensor, row after row.
    pub(super) fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedderLoadError> {
        let (start, numbers) = self.place(name, shape)?;
        let mut bytes = vec![0; numbers * NUMBER_BYTES];
        let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(EmbedderLoadError::read(&self.path))?;
        let values: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => Err(self.unfit(name, "has a value that is not a number (NaN)")),
        }
    }

    /// Returns the place of a tensor in the file, and how many numbers it has.
    fn place(&self, name: &str, shape: &[usize]) -> Result<(u64, usize), EmbedderLoadError> {
        let found = self.tensors.get(name).or_else(|| self.tensors.get(&format!("{PREFIX}{name}")));
        let Some(WeightTensor { dtype, shape: its, data_offsets: [start, end] }) = found else {
            return Err(self.unfit(name, "is missing"));
        };
        if dtype != "F32" {
            return Err(self.unfit(name, &format!("is {dtype}, not F32")));
        }
        if its != shape {
            return Err(self.unfit(name, &format!("has the shape {its:?}, not {shape:?}")));
        }
        let numbers: usize = shape.iter().product(); // sizes that were checked: far from overflowing
        if *end > self.length || end.checked_sub(*start) != Some((numbers * NUMBER_BYTES) as u64) {
            return Err(self.unfit(name, "is outside the file, according to its shape"));
        }
        Ok((self.start + start, numbers))
    }

    fn unfit(&self, name: &str, what: &str) -> EmbedderLoadError {
        EmbedderLoadError::unfit(&self.path, format!("the tensor {name} {what}"))
    }
}
