//! `[[webhook]]`: addresses that are told of events of the app.

use std::collections::BTreeSet;
use std::ops::Range;

use protocol::WebhookEvent;
use serde::Deserialize;
use url::Url;

use super::tool_ref_at;
use crate::source::{FileText, Problem, Spanned};
use crate::{ToolRef, Webhook};

const MAX_WEBHOOKS: usize = 8;
const MAX_NAME_CHARS: usize = 64;
const MAX_URL_BYTES: usize = 2048;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWebhook {
    name: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    events: Option<Spanned<Vec<Spanned<String>>>>,
    secret: Option<Spanned<String>>,
}

/// The webhooks in the order of the file. Each has a name of its own.
pub(super) fn webhooks(
    source: &FileText<'_>,
    raw: Vec<Spanned<RawWebhook>>,
) -> Result<Vec<Webhook>, Problem> {
    if let Some(beyond) = raw.get(MAX_WEBHOOKS) {
        let message = format!("there are more than {MAX_WEBHOOKS} webhooks");
        return Err(source.problem(beyond.span(), message, "tell fewer addresses"));
    }
    let mut names = BTreeSet::new();
    let mut webhooks = Vec::new();
    for entry in raw {
        let webhook = webhook(source, entry.span(), entry.into_inner())?;
        if !names.insert(webhook.name.name.clone()) {
            let message = format!("two webhooks are called {:?}", webhook.name.name);
            return Err(webhook.name.problem(message, "give each of them a name of its own: name = \"…\""));
        }
        webhooks.push(webhook);
    }
    Ok(webhooks)
}

fn webhook(source: &FileText<'_>, span: Range<usize>, raw: RawWebhook) -> Result<Webhook, Problem> {
    let missing =
        |field: &str, remedy: &str| source.problem(span.clone(), format!("a webhook has no {field}"), remedy);
    let raw_url = raw.url.ok_or_else(|| missing("url", "add url = \"https://…\""))?;
    let url = read_url(source, &raw_url)?;
    let secret = raw.secret.ok_or_else(|| {
        missing(
            "secret",
            "add secret = \"NAME\", and set RONDO_SECRET_NAME to the value that begins with whsec_",
        )
    })?;
    check_secret(source, &secret)?;
    let events = raw.events.ok_or_else(|| missing("events", "add events = [\"run.ended\"]"))?;
    let events = read_events(source, events)?;
    let name = match raw.name {
        Some(name) => read_name(source, &name)?,
        // The host tells it from others, and is the same when the path of the URL is changed.
        None => {
            ToolRef { name: url.host_str().unwrap_or_default().to_owned(), ..tool_ref_at(source, &raw_url) }
        }
    };
    Ok(Webhook { name, url: url.into(), events, secret: secret.into_inner() })
}

fn read_url(source: &FileText<'_>, raw: &Spanned<String>) -> Result<Url, Problem> {
    let refused = |message: &str| {
        source.problem(
            raw.span(),
            message.to_owned(),
            "write an address such as \"https://example.com/hook\"",
        )
    };
    let url = Url::parse(raw.get_ref()).map_err(|_| refused("the url of a webhook cannot be read"))?;
    if raw.get_ref().len() > MAX_URL_BYTES {
        return Err(refused("the url of a webhook is too long"));
    }
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(refused("the url of a webhook is not an http or https address"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(refused("the url of a webhook has a user, a password or a part after #"));
    }
    Ok(url)
}

fn read_events(
    source: &FileText<'_>,
    raw: Spanned<Vec<Spanned<String>>>,
) -> Result<Vec<WebhookEvent>, Problem> {
    let names = WebhookEvent::ALL.map(WebhookEvent::name).join(", ");
    let span = raw.span();
    let mut events = Vec::new();
    for entry in raw.into_inner() {
        let Some(event) = WebhookEvent::parse(entry.get_ref()) else {
            let message = format!("{:?} is not an event of a webhook", entry.get_ref());
            return Err(source.problem(entry.span(), message, format!("write some of {names}")));
        };
        if !events.contains(&event) {
            events.push(event);
        }
    }
    if events.is_empty() {
        return Err(source.problem(
            span,
            "a webhook has no events".to_owned(),
            format!("write some of {names}"),
        ));
    }
    Ok(events)
}

fn read_name(source: &FileText<'_>, raw: &Spanned<String>) -> Result<ToolRef, Problem> {
    let name = raw.get_ref();
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_good) {
        let remedy = format!("write 1 to {MAX_NAME_CHARS} letters, digits, dots, underscores or dashes");
        return Err(source.problem(raw.span(), format!("{name:?} cannot be a webhook's name"), remedy));
    }
    Ok(tool_ref_at(source, raw))
}

fn check_secret(source: &FileText<'_>, raw: &Spanned<String>) -> Result<(), Problem> {
    let name = raw.get_ref();
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.chars().all(is_good) {
        return Ok(());
    }
    // The text may be the secret itself, so it is not repeated.
    let message = "the secret of a webhook is not the name of a secret".to_owned();
    let remedy = "write a name of lower-case letters, digits and underscores, such as \"orders_webhook\", and set the \
                  value as RONDO_SECRET_ORDERS_WEBHOOK";
    Err(source.problem(raw.span(), message, remedy))
}
