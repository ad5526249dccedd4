//! The rules that a catalogue must keep before the server uses it: in a form that this program knows, complete, with
//! numbers that can be true and references that lead somewhere.

use std::collections::BTreeSet;

use super::catalogue::{Catalogue, KnownModel};
use super::retirement::within_notice;
use crate::capabilities::Price;

/// The longest text of a catalogue.
pub const MAX_CATALOGUE_BYTES: usize = 1 << 20;
/// The form that this program reads.
const FORMAT: u32 = 1;
/// Models, families and embedding models, each.
const MAX_ENTRIES: usize = 2000;
const MAX_NAME_BYTES: usize = 128;
const MAX_SOURCE_BYTES: usize = 1000;
/// Less than this holds no prompt worth sending.
const MIN_WINDOW_TOKENS: u32 = 1024;
const MAX_WINDOW_TOKENS: u32 = 100_000_000;
/// US dollars for a million tokens.
const MAX_PRICE: f64 = 10_000.0;

/// Why a catalogue is not taken: a sentence for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCatalogue(String);

type CatalogueCheck = Result<(), InvalidCatalogue>;

fn refuse<T>(text: impl Into<String>) -> Result<T, InvalidCatalogue> {
    Err(InvalidCatalogue(text.into()))
}

/// Only the form, for a text whose other fields may not be known here.
#[derive(serde::Deserialize)]
struct Head {
    format: Option<u32>,
}

impl Catalogue {
    /// Reads and checks the text of a catalogue.
    pub fn parse(text: &str) -> Result<Self, InvalidCatalogue> {
        if text.len() > MAX_CATALOGUE_BYTES {
            return refuse(format!("it is longer than {MAX_CATALOGUE_BYTES} bytes"));
        }
        let unreadable = |error: toml::de::Error| {
            let line =
                error.span().map(|span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            InvalidCatalogue(format!("{place}{}", error.message()))
        };
        let head: Head = toml::from_str(text).map_err(unreadable)?;
        match head.format {
            Some(FORMAT) => {}
            Some(other) => {
                return refuse(format!(
                    "its format is {other}, and this program reads {FORMAT}; use a program of another version"
                ));
            }
            None => return refuse(format!("it does not say its format; write format = {FORMAT}")),
        }
        let catalogue: Self = toml::from_str(text).map_err(unreadable)?;
        check(&catalogue)?;
        Ok(catalogue)
    }
}

fn check(catalogue: &Catalogue) -> CatalogueCheck {
    if catalogue.source.trim().is_empty() || !is_source(&catalogue.source) {
        return refuse(format!(
            "source is empty, longer than {MAX_SOURCE_BYTES} bytes or holds control characters"
        ));
    }
    let lengths = [
        ("models", catalogue.models.len()),
        ("families", catalogue.families.len()),
        ("embeddings", catalogue.embeddings.len()),
        ("defaults", catalogue.defaults.len()),
    ];
    if let Some((what, length)) = lengths.iter().find(|(_, length)| *length > MAX_ENTRIES) {
        return refuse(format!("it has {length} {what}; at most {MAX_ENTRIES} are taken"));
    }
    if catalogue.models.is_empty() {
        return refuse("it has no models");
    }
    check_names(catalogue)?;
    catalogue.models.iter().try_for_each(|model| entry(catalogue, model))?;
    families(catalogue)?;
    embeddings(catalogue)?;
    defaults(catalogue)
}

/// Whether it can be shown on a terminal.
fn is_source(text: &str) -> bool {
    text.len() <= MAX_SOURCE_BYTES && !text.chars().any(char::is_control)
}

fn check_names(catalogue: &Catalogue) -> CatalogueCheck {
    let models = catalogue.models.iter().map(|model| (&model.provider, &model.name));
    let families = catalogue.families.iter().map(|family| (&family.provider, &family.pattern));
    let embeddings = catalogue.embeddings.iter().map(|known| (&known.provider, &known.name));
    let mut seen = BTreeSet::new();
    for (provider, name) in models.chain(families).chain(embeddings) {
        let good = |text: &str| {
            (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !good(name) || !good(provider) {
            return refuse(format!(
                "{name:?} of {provider:?}: names are 1 to {MAX_NAME_BYTES} characters without spaces"
            ));
        }
        if !seen.insert((provider, name)) {
            return refuse(format!("{name} of {provider} is there twice"));
        }
    }
    Ok(())
}

fn entry(catalogue: &Catalogue, model: &KnownModel) -> CatalogueCheck {
    let name = &model.name;
    tokens(name, model.context_window, model.max_output)?;
    let gone = model.retires_on.is_some_and(|day| day <= catalogue.checked_on);
    match &model.price {
        Some(price) => check_price(name, price)?,
        None if gone => {}
        None => return refuse(format!("{name} has no price")),
    }
    if model.source.as_ref().is_some_and(|source| !is_source(source)) {
        return refuse(format!(
            "{name}: source is longer than {MAX_SOURCE_BYTES} bytes or holds control characters"
        ));
    }
    let Some(instead) = &model.instead else { return Ok(()) };
    match catalogue.models.iter().find(|other| other.provider == model.provider && other.name == *instead) {
        None => refuse(format!("{name}: instead is {instead:?}, which is not a model of {}", model.provider)),
        Some(other) if within_notice(other.retires_on, catalogue.checked_on) => {
            refuse(format!("{name}: instead is {instead}, which retires within a year of checked_on"))
        }
        Some(_) => Ok(()),
    }
}

fn tokens(name: &str, window: u32, max_output: Option<u32>) -> CatalogueCheck {
    if !(MIN_WINDOW_TOKENS..=MAX_WINDOW_TOKENS).contains(&window) {
        return refuse(format!(
            "{name}: context_window is {window}; it must be from {MIN_WINDOW_TOKENS} to {MAX_WINDOW_TOKENS}"
        ));
    }
    match max_output {
        Some(most) if most == 0 || most >= window => {
            refuse(format!("{name}: max_output is {most}; it must be from 1 to less than context_window"))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_price(name: &str, price: &Price) -> CatalogueCheck {
    let long = price.long.map(|long| [long.input, long.cached_input, long.output]);
    let numbers =
        [price.input, price.cached_input, price.output].into_iter().chain(long.into_iter().flatten());
    let is_wrong = |number: &f64| !(0.0..=MAX_PRICE).contains(number);
    match numbers.into_iter().find(is_wrong) {
        Some(number) => refuse(format!("{name}: a price is {number}; it must be from 0 to {MAX_PRICE}")),
        None => Ok(()),
    }
}

fn families(catalogue: &Catalogue) -> CatalogueCheck {
    for family in &catalogue.families {
        let pattern = &family.pattern;
        if pattern.find('*') != Some(pattern.len() - 1) || pattern.len() < 2 {
            return refuse(format!("the pattern {pattern:?} must be the beginning of a name and a star"));
        }
        tokens(pattern, family.context_window, family.max_output)?;
    }
    Ok(())
}

fn embeddings(catalogue: &Catalogue) -> CatalogueCheck {
    for known in &catalogue.embeddings {
        tokens(&known.name, known.context_window, None)?;
        check_price(&known.name, &Price::flat(known.price, known.price, known.price))?;
        let Some(instead) = &known.instead else { continue };
        let mut others = catalogue.embeddings.iter().filter(|other| other.provider == known.provider);
        let is_good = |retires_on| !within_notice(retires_on, catalogue.checked_on);
        if !others.any(|other| other.name == *instead && is_good(other.retires_on)) {
            return refuse(format!(
                "{}: instead is {instead:?}, which is no embedding model of {} that stays for a year",
                known.name, known.provider
            ));
        }
    }
    Ok(())
}

fn defaults(catalogue: &Catalogue) -> CatalogueCheck {
    for (provider, name) in &catalogue.defaults {
        match catalogue.models.iter().find(|model| model.provider == *provider && model.name == *name) {
            None => return refuse(format!("the default {name:?} of {provider:?} is not one of its models")),
            Some(model) if within_notice(model.retires_on, catalogue.checked_on) => {
                return refuse(format!(
                    "the default {name} of {provider} retires within a year of checked_on"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
