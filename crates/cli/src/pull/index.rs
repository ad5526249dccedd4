//! The simple index of Python packages, as JSON or as HTML.

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;

use super::error::PullError;
use super::request::ask;
use super::request::{is_sha256, without_secrets};
use crate::cause;
use crate::http::read_body;

const FORMATS: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, \
                       text/html;q=0.1";
const MAX_PAGE_BYTES: usize = 16 << 20;
/// A wheel for every system; one that holds only data is always such.
const ANYWHERE: &str = "-none-any.whl";

/// A package in one version.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedWheel<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
}

/// A file that the index offers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WheelLink {
    pub(super) url: Url,
    pub(super) sha256: String,
}

/// Finds the address of the package's wheel, and what it must hash to.
pub(super) async fn find(index: &Url, package: WantedWheel<'_>) -> Result<WheelLink, PullError> {
    let mut page = index.clone();
    page.set_path(&format!("{}/{}/", index.path().trim_end_matches('/'), package.name));
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(FORMATS))]);
    let reply = ask(&page, &headers).await?.reply;
    let at = reply.url().clone();
    let trouble = |reason: String| PullError::Index { url: without_secrets(&page), reason };
    let kind = reply.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind.contains("json");
    let body = read_body(reply, MAX_PAGE_BYTES).await.map_err(|error| trouble(cause(&error)))?;
    let body = body.ok_or_else(|| trouble(format!("its page is larger than {MAX_PAGE_BYTES} bytes")))?;
    let links = if is_json {
        json_links(&body).map_err(|error| trouble(error.to_string()))?
    } else {
        html_links(&String::from_utf8_lossy(&body))
    };
    choose(&at, links, package).map_err(trouble)
}

#[derive(Deserialize)]
struct IndexPage {
    files: Vec<Link>,
}

/// A link as it is written, and the hashes beside it.
#[derive(Deserialize)]
struct Link {
    #[serde(rename = "url")]
    href: String,
    #[serde(default)]
    hashes: Hashes,
}

#[derive(Deserialize, Default)]
struct Hashes {
    sha256: Option<String>,
}

fn json_links(body: &[u8]) -> Result<Vec<Link>, serde_json::Error> {
    serde_json::from_slice::<IndexPage>(body).map(|page| page.files)
}

fn html_links(page: &str) -> Vec<Link> {
    let anchors = page.split("<a ").skip(1).filter_map(|rest| rest.split('>').next());
    let link = |anchor: &str| {
        let (_, value) = anchor.split_once("href=")?;
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        let href = value.strip_prefix(quote)?.split(quote).next()?.replace("&amp;", "&");
        let (href, fragment) = href.split_once('#').unwrap_or((&href, ""));
        let sha256 = fragment.split('&').find_map(|part| part.strip_prefix("sha256="));
        Some(Link { href: href.to_owned(), hashes: Hashes { sha256: sha256.map(str::to_owned) } })
    };
    anchors.filter_map(link).collect()
}

fn choose(page: &Url, links: Vec<Link>, package: WantedWheel<'_>) -> Result<WheelLink, String> {
    let begin = format!("{}-{}-", package.name.replace('-', "_"), package.version);
    let is_it = |link: &Link| {
        let name = link.href.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        name.to_ascii_lowercase().starts_with(&begin) && name.ends_with(ANYWHERE)
    };
    let Some(link) = links.into_iter().find(is_it) else {
        return Err(format!("it has no wheel of {} {}", package.name, package.version));
    };
    let sha256 = link.hashes.sha256.map(|hash| hash.to_ascii_lowercase()).filter(|hash| is_sha256(hash));
    let sha256 = sha256.ok_or("it does not give the SHA-256 of the wheel")?;
    let url = page.join(&link.href).map_err(|error| error.to_string())?;
    Ok(WheelLink { url, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: WantedWheel<'_> = WantedWheel { name: "some-model", version: "1.2" };

    fn chosen(links: Vec<Link>) -> Result<(String, String), String> {
        let page = Url::parse("http://index.test/simple/some-model/").unwrap();
        choose(&page, links, WANTED).map(|offer| (offer.url.to_string(), offer.sha256))
    }

    #[test]
    fn html_and_json_give_the_same_wheel() {
        let hash = "ab".repeat(32);
        let html = format!(
            "<html><a href=\"x/some_model-1.2.tar.gz#sha256={hash}\">t</a><br/>\n<a data-x='1' \
             href='../../files/some_model-1.2-py3-none-any.whl?a=1&amp;b=2#sha256={hash}'>w</a>\
             <a href=\"some_model-1.20-py3-none-any.whl#sha256={hash}\">other</a></html>"
        );
        let json = format!(
            r#"{{"files": [{{"url": "some_model-1.1-py3-none-any.whl", "hashes": {{}}}},
                {{"url": "../../files/some_model-1.2-py3-none-any.whl?a=1&b=2", "hashes": {{"sha256": "{hash}"}}}}]}}"#
        );
        let wanted = "http://index.test/files/some_model-1.2-py3-none-any.whl?a=1&b=2".to_owned();
        assert_eq!(chosen(html_links(&html)), Ok((wanted.clone(), hash.clone())));
        assert_eq!(chosen(json_links(json.as_bytes()).unwrap()), Ok((wanted, hash)));
    }

    #[test]
    fn a_wheel_without_a_hash_or_none_at_all_is_refused() {
        let bare =
            html_links("<a href=\"some_model-1.2-py3-none-any.whl#md5=00\">w</a><a>no link</a><a href=x>");
        assert_eq!(bare.len(), 1);
        assert_eq!(chosen(bare), Err("it does not give the SHA-256 of the wheel".into()));
        assert_eq!(chosen(Vec::new()), Err("it has no wheel of some-model 1.2".into()));
        assert!(json_links(b"<html>").is_err());
    }
}
