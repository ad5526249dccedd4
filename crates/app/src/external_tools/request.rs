//! One request over HTTP: what it is made of, and what it comes to for a call.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::{JsonTemplate, TextTemplate, UrlTemplate};
use crate::words::word_enum;

word_enum! {
    #[derive(Default)]
    pub enum HttpMethod {
        #[default]
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct RequestTemplate {
    pub method: HttpMethod,
    pub url: UrlTemplate,
    /// Parameters beside those of the address.
    pub query: Vec<(String, TextTemplate)>,
    pub headers: Vec<(String, TextTemplate)>,
    pub body: Option<BodyTemplate>,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BodyTemplate {
    Json(JsonTemplate),
    Form(Vec<(String, TextTemplate)>),
    Text(TextTemplate),
}

/// A request of one call. It may hold secrets.
#[derive(Clone, PartialEq)]
pub struct Rendered {
    pub method: HttpMethod,
    /// With all parameters.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<RenderedBody>,
}

#[derive(Clone, PartialEq)]
pub enum RenderedBody {
    Json(Value),
    Form(Vec<(String, String)>),
    Text(String),
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered").field("method", &self.method).finish_non_exhaustive()
    }
}

impl RequestTemplate {
    /// The request for these values: an object of `input`, `secret`, `credential`, `user`, `app`, `thread`, `call` and,
    /// for an undo, `output`. The error names the part that is at fault, and no value.
    pub fn render(&self, values: &Value) -> Result<Rendered, String> {
        let mut url = self.url.render(values).map_err(|error| format!("url: {error}"))?;
        let query = texts("query", &self.query, values)?;
        if !query.is_empty() {
            let mut whole = Url::parse(&url).map_err(|error| format!("url: {error}"))?;
            whole.query_pairs_mut().extend_pairs(query);
            url = whole.into();
        }
        let body = match &self.body {
            None => None,
            Some(BodyTemplate::Json(json)) => {
                let json = json.render(values).map_err(|error| format!("body: {error}"))?;
                Some(RenderedBody::Json(json))
            }
            Some(BodyTemplate::Form(fields)) => Some(RenderedBody::Form(texts("form", fields, values)?)),
            Some(BodyTemplate::Text(text)) => {
                let text = text.text(values).map_err(|error| format!("text: {error}"))?;
                Some(RenderedBody::Text(text.unwrap_or_default()))
            }
        };
        Ok(Rendered { method: self.method, url, headers: header_values(&self.headers, values)?, body })
    }

    pub fn secrets(&self) -> BTreeSet<&str> {
        self.templates().flat_map(TextTemplate::secrets).map(String::as_str).collect()
    }

    pub fn credentials(&self) -> BTreeSet<&str> {
        self.templates().flat_map(TextTemplate::credentials).map(String::as_str).collect()
    }

    /// Header values that may hold secrets.
    fn templates(&self) -> impl Iterator<Item = &TextTemplate> {
        let of_body = match &self.body {
            None => Vec::new(),
            Some(BodyTemplate::Json(json)) => json.templates(),
            Some(BodyTemplate::Form(fields)) => fields.iter().map(|(_, template)| template).collect(),
            Some(BodyTemplate::Text(text)) => vec![text],
        };
        self.query.iter().chain(&self.headers).map(|(_, template)| template).chain(of_body)
    }
}

/// The headers that have a value. None can end its line.
pub fn header_values(
    headers: &[(String, TextTemplate)],
    values: &Value,
) -> Result<Vec<(String, String)>, String> {
    let texts = texts("headers", headers, values)?;
    match texts.iter().find(|(_, value)| value.chars().any(char::is_control)) {
        Some((name, _)) => {
            Err(format!("headers.{name}: it contains a line break or another control character"))
        }
        None => Ok(texts),
    }
}

fn texts(
    part: &str,
    templates: &[(String, TextTemplate)],
    values: &Value,
) -> Result<Vec<(String, String)>, String> {
    let mut texts = Vec::new();
    for (name, template) in templates {
        let text = template.text(values).map_err(|error| format!("{part}.{name}: {error}"))?;
        texts.extend(text.map(|text| (name.clone(), text)));
    }
    Ok(texts)
}
