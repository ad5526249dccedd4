//! The description at `/openapi.json`. It is a part of the program, as the file `openapi.json` of this crate. A test
//! makes that file of the attributes on handlers and types, so the code for it is in no program but the tests.

use std::io::{Error, Read};
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use crate::Proxying;

/// The file, compressed with gzip.
const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// The place of `servers` among the fields of the description: after `openapi` and `info`.
const PLACE_OF_SERVERS: usize = 2;

/// The bytes of the description, which few clients ask for.
pub(crate) type ApiDocument = LazyLock<Bytes, Box<dyn FnOnce() -> Bytes + Send>>;

pub(crate) fn document(proxying: &Proxying) -> ApiDocument {
    let servers = servers(proxying);
    LazyLock::new(Box::new(move || Bytes::from(encode(servers).unwrap_or_default())))
}

/// Returns the addresses at which others reach the server: its public URLs, or else the path below which it is.
fn servers(proxying: &Proxying) -> Vec<Value> {
    let server = |url: String| json!({ "url": url });
    match (proxying.public_urls.as_slice(), &proxying.base_path) {
        ([], base_path) => base_path.iter().map(|path| server(path.to_string())).collect(),
        (urls, _) => urls.iter().map(|url| server(url.to_string())).collect(),
    }
}

/// The description without the spaces of the file. Behind a proxy, it says where that is.
fn encode(servers: Vec<Value>) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    GzDecoder::new(COMPRESSED).read_to_end(&mut text)?;
    let mut description: Map<String, Value> = serde_json::from_slice(&text)?;
    if !servers.is_empty() {
        description.shift_insert(PLACE_OF_SERVERS, "servers".into(), servers.into());
    }
    Ok(serde_json::to_vec(&description)?)
}
