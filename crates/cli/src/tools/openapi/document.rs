//! An OpenAPI description as it was read: JSON or YAML of a version that is known, and what its references lead to.

use std::path::Path;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::replace_file::read_text;

/// Bytes of a description.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// References that lead to references.
const MAX_HOPS: usize = 16;

pub(crate) struct OpenApiDocument {
    root: Value,
}

impl OpenApiDocument {
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let read = read_text(file, MAX_BYTES).and_then(|text| Self::parse(&text));
        read.map_err(|message| format!("{}: {message}", file.display()))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('\u{feff}');
        let root: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?
        } else {
            serde_saphyr::from_str(text)
                .map_err(|error| format!("this is not YAML: {}", error.without_snippet()))?
        };
        if root.get("swagger").is_some() {
            let remedy = "convert it to OpenAPI 3 first, for example with `npx swagger2openapi FILE`";
            return Err(format!("this is Swagger 2.0, which is not supported; {remedy}"));
        }
        match root.get("openapi").and_then(Value::as_str) {
            Some(version) if version.starts_with("3.0") || version.starts_with("3.1") => Ok(Self { root }),
            Some(version) => Err(format!("this is OpenAPI {version}; only 3.0 and 3.1 are supported")),
            None => Err("this is not an OpenAPI description: it does not begin with \"openapi\"".into()),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.root.get(key)
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.root.pointer(pointer)?.as_str()
    }

    /// The target of a reference within the description. References to other files are not followed.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        let pointer = reference.strip_prefix('#')?;
        self.root
            .pointer(pointer)
            .or_else(|| self.root.pointer(&percent_decode_str(pointer).decode_utf8().ok()?))
    }

    /// The value, or what it refers to.
    pub(super) fn follow<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        let mut at = value;
        for _ in 0..MAX_HOPS {
            let Some(reference) = at.get("$ref").and_then(Value::as_str) else { return Ok(at) };
            at = self.target(reference).ok_or_else(|| format!("{reference} is not in the description"))?;
        }
        Err("a reference refers to itself".into())
    }
}
