//! JSON objects in which no name occurs twice.
//!
//! Parsers disagree on which of two equal names counts. A token could then say one thing to the issuer's checks and
//! another thing here, so such a token is refused.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object whose own names are unique. Names within its values are not checked.
pub(crate) struct UniqueObject(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueNames)
    }
}

struct UniqueNames;

impl<'de> Visitor<'de> for UniqueNames {
    type Value = UniqueObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without equal names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<UniqueObject, A::Error> {
        let mut object = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(UniqueObject(object))
    }
}
