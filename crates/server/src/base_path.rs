//! The path below which a proxy serves the server, if the proxy does not remove it.

use std::fmt;

use axum::http::uri::{PathAndQuery, Uri};

/// Characters of a path at most.
const MAX_CHARACTERS: usize = 200;

/// A path such as `/agents`: it begins with a slash, and does not end with one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasePath(String);

impl BasePath {
    /// The error says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let path = text.trim_end_matches('/');
        let Some(names) = path.strip_prefix('/') else {
            return Err("it does not begin with a slash and a name");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        if path.len() > MAX_CHARACTERS {
            return Err("it is longer than 200 characters");
        }
        if names.split('/').any(|name| matches!(name, "" | "." | "..") || !name.chars().all(is_plain)) {
            return Err("between its slashes are only letters, digits and the signs - _ . ~");
        }
        Ok(Self(path.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Removes the path from the address of a request. An address without it stays as it is: it comes from this machine, or
    /// from a proxy that has removed the path.
    pub(crate) fn remove_from(&self, uri: &mut Uri) {
        let asked = uri.path_and_query().map_or("", PathAndQuery::as_str);
        let Some(rest) = asked.strip_prefix(self.as_str()).filter(|rest| rest.starts_with('/')) else {
            return;
        };
        let Ok(rest) = rest.parse::<PathAndQuery>() else { return };
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(rest);
        if let Ok(below) = Uri::from_parts(parts) {
            *uri = below;
        }
    }
}

impl fmt::Display for BasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_in_one_spelling_and_others_are_refused() {
        for (text, path) in
            [("/agents", "/agents"), ("/agents/", "/agents"), ("/a/b-c_d.e~f", "/a/b-c_d.e~f")]
        {
            assert_eq!(BasePath::parse(text).unwrap().as_str(), path);
        }
        for text in [
            "",
            "/",
            "agents",
            "/a//b",
            "/a/../b",
            "/a b",
            "/a?b",
            "/a;b",
            "/ä",
            &format!("/{}", "a".repeat(200)),
        ] {
            assert!(BasePath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_whole_path_is_removed() {
        let below = |text: &str| {
            let mut uri: Uri = text.parse().unwrap();
            BasePath::parse("/agents").unwrap().remove_from(&mut uri);
            uri.to_string()
        };
        assert_eq!(below("/agents/v1/apps?limit=1"), "/v1/apps?limit=1");
        assert_eq!(below("/agents/"), "/");
        assert_eq!(below("https://example.com/agents/v1/apps"), "https://example.com/v1/apps");
        assert_eq!(below("/agents/agents/"), "/agents/", "once");
        for same in ["/agents", "/agents?a=1", "/agents2/v1", "/v1/apps", "/v1/agents/"] {
            assert_eq!(below(same), same);
        }
    }
}
