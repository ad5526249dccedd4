//! The date and time, because models do not know them.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use protocol::Clock;
use serde_json::{Value, json};

use crate::{Calling, Failed, Tool, ToolOutput};

pub(crate) struct CurrentTime {
    clock: Arc<dyn Clock>,
}

impl CurrentTime {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

/// The time zone that is named after a city: small models write `Tokyo` for `Asia/Tokyo`.
fn zone_of_city(city: &str) -> Option<TimeZone> {
    let city = city.rsplit('/').next()?.trim().replace(' ', "_");
    let names = jiff::tz::db().available().map(|name| name.to_string());
    let mut found =
        names.filter(|name| name.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city)));
    TimeZone::get(&found.find(|name| name.contains('/'))?).ok()
}

#[async_trait]
impl Tool for CurrentTime {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let input = &calling.input;
        let wrong = |_| {
            Failed::new(
                "unknown_timezone",
                "that is not an IANA time zone; write one such as America/Sao_Paulo or UTC",
            )
        };
        let named = input.get("timezone").and_then(Value::as_str);
        let zone = match named {
            Some(name) => {
                TimeZone::get(name).or_else(|error| zone_of_city(name).ok_or(error)).map_err(wrong)?
            }
            None => calling.zone.clone(),
        };
        let name = zone.iana_name().or(named).unwrap_or("UTC").to_owned();
        let now = self.clock.now().to_zoned(zone);
        Ok(json!({
            "time": now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            "weekday": now.strftime("%A").to_string(),
            "timezone": name,
        })
        .into())
    }
}
