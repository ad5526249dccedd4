//! JSON written as TOML, with its keys in the order of the file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use toml::Spanned;

/// The key under which the parser hands out dates.
const DATE: &str = "$__toml_private_datetime";

pub(super) struct InOrder(pub(super) Value);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson).map(Self)
    }
}

struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(yes.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let unfit = || E::custom("the number is not finite, expected a finite number");
        Number::from_f64(number).map(Value::Number).ok_or_else(unfit)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(InOrder(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut found: Vec<(Spanned<String>, Value)> = Vec::new();
        let dated = |error: A::Error| match error.to_string().contains(DATE) {
            true => A::Error::custom("JSON has no dates, expected a text in quotes"),
            false => error,
        };
        while let Some((name, InOrder(field))) = fields.next_entry().map_err(dated)? {
            found.push((name, field));
        }
        found.sort_by_key(|(name, _)| name.span().start);
        let fields = found.into_iter().map(|(name, field)| (name.into_inner(), field));
        Ok(Value::Object(fields.collect::<Map<_, _>>()))
    }
}
