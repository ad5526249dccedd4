//! The models as a table for people and as JSON for programs.

use indicatif::DecimalBytes;
use jiff::civil::Date;
use model::{Model, ModelRegistry, Price};
use serde_json::{Value, json};

use crate::config::Config;
use crate::terminal_text::{columns, json_word};
use crate::weights::{self, PulledModel};
use crate::{CommandResult, catalogue, local};

/// The names of columns, between bars.
const HEAD: &str =
    "|NAME|PROVIDER|KIND|STREAMING|TOOLS|STRUCTURED|VISION|CONTEXT|MAX OUTPUT|PRICE (in/cached/out)|RETIRES";

const PULLED_HEAD: &str = "NAME|KIND|SIZE|QUANTISATION|SPEED HERE";

pub(super) fn text(registry: &ModelRegistry, config: &Config) -> String {
    lines(HEAD, registry.list().map(|model| row(model, config)))
}

/// Lines on listed models that have ended by `today` or will soon; empty when there are none.
pub(super) fn ending_lines(registry: &ModelRegistry, config: &Config, today: Date) -> String {
    let ending = registry.list().filter_map(|model| catalogue::end_of(config, model.name(), today));
    let lines: String = ending.map(|end| format!("{end}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// The day on which a model ends, where that is known.
fn end(model: &Model, config: &Config) -> Option<Date> {
    let (provider, id) =
        config.provider_of_model(model.name()).filter(|(provider, _)| provider.is_at_its_own_url())?;
    config.knowledge.catalogue.retires_on(&provider.name, id)
}

/// Empty when there are none.
pub(super) fn pulled_table(models: &[PulledModel]) -> String {
    if models.is_empty() {
        return String::new();
    }
    let rows = models.iter().map(|model| {
        vec![
            model.name.clone(),
            json_word(&model.kind).to_string(),
            DecimalBytes(model.bytes).to_string(),
            model.quantisation.clone().unwrap_or_else(|| "-".to_owned()),
            local::speed(model)
                .unwrap_or_else(|| format!("not measured; `rondo models test {}` does", model.name)),
        ]
    });
    format!("\nin this process:\n{}", lines(PULLED_HEAD, rows))
}

/// A table with the names of its columns.
fn lines(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = head.split('|').map(str::to_owned).collect();
    columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn row(model: &Model, config: &Config) -> Vec<String> {
    let can = model.capabilities();
    let yes = |can: bool| if can { "yes" } else { "no" }.to_owned();
    vec![
        if config.model.as_deref() == Some(model.name()) { "*" } else { "" }.to_owned(),
        model.name().to_owned(),
        model.listing.provider.clone(),
        model.listing.kind.name().to_owned(),
        yes(can.streaming),
        if can.tools && can.calls_in_text { "in text".to_owned() } else { yes(can.tools) },
        can.structured.name().to_owned(),
        yes(can.vision),
        can.context_window.to_string(),
        can.max_output.map_or_else(|| "-".to_owned(), |most| most.to_string()),
        model.listing.price.map_or_else(
            || "-".to_owned(),
            |Price { input, cached_input, output, .. }| format!("{input}/{cached_input}/{output}"),
        ),
        end(model, config).map_or_else(|| "-".to_owned(), |day| day.to_string()),
    ]
}

pub(super) fn json(registry: &ModelRegistry, config: &Config) -> CommandResult<String> {
    let models: Vec<Value> = registry.list().map(|model| object(model, config)).collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&models)?))
}

fn object(model: &Model, config: &Config) -> Value {
    let can = model.capabilities();
    let pulled =
        config.pulled_model(&model.listing.id).filter(|_| model.listing.provider == weights::PROVIDER);
    let weights = pulled.map(|pulled| {
        json!({
            "bytes": pulled.bytes,
            "quantisation": pulled.quantisation,
            "speed": local::speed(pulled),
        })
    });
    let price = model.listing.price.map(|Price { input, cached_input, output, .. }| {
        json!({ "input": input, "cachedInput": cached_input, "output": output })
    });
    let long = model.listing.price.and_then(|price| price.long).map(|long| {
        json!({
            "above": long.above, "input": long.input, "cachedInput": long.cached_input, "output": long.output,
        })
    });
    json!({
        "name": model.name(),
        "provider": model.listing.provider,
        "id": model.listing.id,
        "kind": model.listing.kind.name(),
        "default": config.model.as_deref() == Some(model.name()),
        "streaming": can.streaming,
        "tools": can.tools,
        "structured": can.structured.name(),
        "vision": can.vision,
        "sampling": can.sampling,
        "thinking": can.thinking,
        "toolCallsInText": can.calls_in_text,
        "contextWindow": can.context_window,
        "maxOutput": can.max_output,
        "price": price,
        "longPrice": long,
        "retiresOn": end(model, config).map(|day| day.to_string()),
        "weights": weights,
    })
}
