//! Searching the web with the engine that the operator has chosen: Tavily, or a `SearXNG` of one's own.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use protocol::{Effect, Source};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::border::Hidden;
use super::egress::{Egress, EgressError, Incoming, Outgoing};
use super::http::{json_of, refusal};
use crate::builtin;
use crate::{Calling, Failed, OfferedTool, Tool, ToolFacts, ToolOutput};

/// The text that front ends without events show while the web is searched.
const MARKER: &str = "[SEARCHING_ONLINE]";

/// How long a search may take, another try included: a user waits for the answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);

const MAX_RESULTS: usize = 5;

/// Characters of one result that the model reads.
const MAX_CONTENT_CHARS: usize = 1_500;
const MAX_TITLE_CHARS: usize = 200;

/// Bytes of an address beyond which no client could follow it.
const MAX_URL_BYTES: usize = 2_048;

/// The status of an answer that is one.
const OK: u16 = 200;

/// The service that searches the web.
#[derive(Clone, Default)]
pub struct WebSearchConfig {
    pub tavily: Option<TavilyConfig>,
    /// The address of a `SearXNG`.
    pub searxng: Option<String>,
}

#[derive(Clone)]
pub struct TavilyConfig {
    pub base_url: String,
    pub key: String,
}

/// The results of a search.
#[derive(Debug, Default, PartialEq)]
struct Found {
    answer: Option<String>,
    pages: Vec<FoundPage>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct FoundPage {
    #[serde(default)]
    title: Option<String>,
    url: String,
    #[serde(default)]
    content: Option<String>,
}

/// A search of the web by one engine.
pub(crate) struct WebSearch {
    pub(crate) engine: SearchEngine,
    pub(crate) egress: Egress,
}

pub(crate) enum SearchEngine {
    Tavily(TavilyConfig),
    /// The address of a `SearXNG`.
    Searxng(String),
}

impl WebSearch {
    /// The tool with its facts.
    pub(crate) fn into_offered_tool(self) -> OfferedTool {
        let (marker, time_limit) = (Some(MARKER.to_owned()), Some(TIME_LIMIT));
        let facts = ToolFacts { marker, time_limit, ..ToolFacts::external(Effect::Read) };
        let name = match self.engine {
            SearchEngine::Tavily(_) => "tavily_search",
            SearchEngine::Searxng(_) => "searxng_search",
        };
        OfferedTool::new(builtin::spec(name), self, facts)
    }

    async fn tavily(
        &self,
        tavily: &TavilyConfig,
        calling: &Calling<'_>,
        query: &str,
        hidden: &Hidden,
    ) -> Result<Found, Failed> {
        let url = address(&tavily.base_url, "search")?;
        let mut headers = HeaderMap::new();
        let key = HeaderValue::from_str(&format!("Bearer {}", tavily.key));
        let mut key = key.map_err(|_| {
            Failed::new("not_configured", "the API key of the web search has characters that cannot be sent")
        })?;
        key.set_sensitive(true);
        headers.insert(AUTHORIZATION, key);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let asked = json!({
            "query": query, "max_results": MAX_RESULTS, "search_depth": "basic", "include_answer": true,
        });
        let body = Some(Bytes::from(asked.to_string()));
        let answer =
            ask(calling, (&self.egress, hidden), Outgoing { method: Method::POST, url, headers, body })
                .await?;
        match answer.status {
            401 | 403 => {
                return Err(Failed::new("not_configured", "Tavily refused the API key; tell the user"));
            }
            432 | 433 => {
                return Err(Failed::new("rate_limited", "the searches of the Tavily plan are used up"));
            }
            _ => {}
        }
        let answer = read(&answer, hidden)?;
        let said = answer.get("answer").and_then(Value::as_str).map(str::to_owned);
        Ok(Found { answer: said, pages: pages(&answer) })
    }

    async fn searxng(&self, base_url: &str, calling: &Calling<'_>, query: &str) -> Result<Found, Failed> {
        let mut url = address(base_url, "search")?;
        url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = Outgoing { method: Method::GET, url, headers, body: None };
        let hidden = Hidden::default();
        let answer = ask(calling, (&self.egress, &hidden), request).await?;
        if answer.status == 403 {
            let message = "SearXNG did not answer in JSON; its operator must add json to search.formats in \
                its settings";
            return Err(Failed::new("not_configured", message));
        }
        let answer = read(&answer, &hidden)?;
        let said = answer.get("answers").and_then(|answers| answers.get(0)).and_then(|first| {
            first.as_str().or_else(|| first.get("answer").and_then(Value::as_str)).map(str::to_owned)
        });
        Ok(Found { answer: said, pages: pages(&answer) })
    }
}

#[async_trait]
impl Tool for WebSearch {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let mut hidden = Hidden::default();
        let query = query(&calling);
        let found = match &self.engine {
            SearchEngine::Tavily(tavily) => {
                hidden.add("the key", &tavily.key);
                self.tavily(tavily, &calling, query, &hidden).await
            }
            SearchEngine::Searxng(base_url) => self.searxng(base_url, &calling, query).await,
        };
        hidden.hide_in_result(found.map(|found| search_output(query, &found)))
    }
}

fn query<'a>(calling: &'a Calling<'_>) -> &'a str {
    calling.input.get("query").and_then(Value::as_str).unwrap_or_default()
}

fn address(base: &str, path: &str) -> Result<Url, Failed> {
    let whole = format!("{}/{path}", base.trim_end_matches('/'));
    Url::parse(&whole)
        .map_err(|_| Failed::new("not_configured", "the address of the web search is not a URL"))
}

async fn ask(
    calling: &Calling<'_>,
    (egress, hidden): (&Egress, &Hidden),
    request: Outgoing,
) -> Result<Incoming, Failed> {
    let answer = tokio::select! {
        biased; // nothing is sent once the caller has gone
        () = calling.stop.cancelled() => {
            return Err(Failed::new(Failed::CANCELLED, "the call was cancelled before there was an answer"));
        }
        answer = egress.send(request) => answer.map_err(|trouble| unanswered_failure(&trouble))?,
    };
    if answer.status != OK {
        let said = refusal(&answer, false, hidden).message;
        tracing::warn!(status = answer.status, said, "the web search provider refused a request");
    }
    Ok(answer)
}

/// Why there is no answer. The address of the search is for the operator, so only the log names it.
fn unanswered_failure(trouble: &EgressError) -> Failed {
    tracing::warn!(%trouble, "the web search provider gave no answer");
    let message = match trouble {
        EgressError::Closed(_) => "the egress rules block the web search; tell the user",
        EgressError::Unreached(_) => "the web search could not be reached",
        EgressError::Redirected(_) => {
            "the web search answered with a redirect, and redirects are not followed"
        }
        EgressError::Broken(_) | EgressError::Refused(_) => {
            "the connection to the web search broke before there was an answer"
        }
    };
    let again = trouble.is_passing().then_some(Duration::ZERO);
    Failed { again, ..Failed::new("unreachable", message) }
}

/// An answer as JSON. The reason that a search gives for its failure is foreign text, so only the log has it.
fn read(answer: &Incoming, hidden: &Hidden) -> Result<Value, Failed> {
    if answer.status == OK {
        return json_of(answer);
    }
    let message = format!("the web search answered with the status {}", answer.status);
    Err(Failed { message, ..refusal(answer, true, hidden) })
}

/// Pages that can be read and followed. One that is out of shape does not cost the others.
fn pages(answer: &Value) -> Vec<FoundPage> {
    let results = answer.get("results").and_then(Value::as_array);
    results.into_iter().flatten().filter_map(page).take(MAX_RESULTS).collect()
}

fn page(result: &Value) -> Option<FoundPage> {
    let page: FoundPage = serde_json::from_value(result.clone()).ok()?;
    let url = Url::parse(&page.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    // As a browser would write it: nothing in it is unseen.
    let url = String::from(url);
    (url.len() <= MAX_URL_BYTES).then_some(FoundPage { url, ..page })
}

/// The results as a text for the model, with their sources.
fn search_output(query: &str, found: &Found) -> ToolOutput {
    let mut parts = Vec::new();
    if let Some(answer) = found.answer.as_deref().map(str::trim).filter(|answer| !answer.is_empty()) {
        parts.push(format!("In short: {}", first_chars(answer, MAX_CONTENT_CHARS)));
    }
    for (page, number) in found.pages.iter().zip(1..) {
        let content = first_chars(page.content.as_deref().unwrap_or_default().trim(), MAX_CONTENT_CHARS);
        parts.push(format!("{number}. {}\n{}\n{content}", title(page), page.url).trim_end().to_owned());
    }
    if parts.is_empty() {
        parts.push(format!("Nothing was found on the web for {query:?}."));
    }
    let source = |page: &FoundPage| Source {
        kind: "web".into(),
        id: page.url.clone(),
        title: title(page),
        place: page.url.clone(),
    };
    ToolOutput {
        sources: found.pages.iter().map(source).collect(),
        ..Value::String(parts.join("\n\n")).into()
    }
}

fn title(page: &FoundPage) -> String {
    // On one line, so that none looks like the next result.
    let words: Vec<&str> = page.title.as_deref().unwrap_or_default().split_whitespace().collect();
    let title = if words.is_empty() { page.url.clone() } else { words.join(" ") };
    first_chars(&title, MAX_TITLE_CHARS)
}

fn first_chars(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
