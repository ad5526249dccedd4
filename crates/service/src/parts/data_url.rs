//! Data URLs: a file as text, such as `data:image/png;base64,iVBO…`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::FIELD;
use crate::Error;

/// The content of a data URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DataUrl {
    pub(super) media_type: Option<String>,
    pub(super) bytes: Vec<u8>,
}

impl DataUrl {
    /// `too_large` is the refusal of more than `limit` bytes.
    pub(super) fn parse(url: &str, limit: usize, too_large: fn() -> Error) -> Result<Self, Error> {
        let has_scheme = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
        let Some((head, data)) = url.get(5..).filter(|_| has_scheme).and_then(|rest| rest.split_once(','))
        else {
            return Err(Error::invalid(
                FIELD,
                "a url must be a data URL, such as data:image/png;base64,…; the server fetches no other address",
            ));
        };
        let Some(media_type) = head.strip_suffix(";base64") else {
            return Err(Error::invalid(FIELD, "a data URL must be encoded in base64: data:TYPE;base64,…"));
        };
        if data.len() / 4 * 3 > limit.saturating_add(2) {
            return Err(too_large());
        }
        let bytes = STANDARD
            .decode(data)
            .map_err(|_| Error::invalid(FIELD, "the data of a data URL is not valid base64"))?;
        let media_type = Some(media_type.to_owned()).filter(|media_type| !media_type.is_empty());
        Ok(Self { media_type, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<DataUrl, String> {
        let too_large = || Error::invalid(FIELD, "too large");
        DataUrl::parse(url, 4, too_large).map_err(|error| error.to_string())
    }

    #[test]
    fn a_data_url_is_read_and_anything_else_is_refused() {
        let read = |media_type: Option<&str>, bytes: &[u8]| {
            Ok(DataUrl { media_type: media_type.map(str::to_owned), bytes: bytes.to_vec() })
        };
        assert_eq!(parsed("data:image/png;base64,AQID"), read(Some("image/png"), &[1, 2, 3]));
        assert_eq!(
            parsed("DATA:text/plain;charset=utf-8;base64,AQ=="),
            read(Some("text/plain;charset=utf-8"), &[1])
        );
        assert_eq!(parsed("data:;base64,"), read(None, &[]));
        for (url, words) in [
            ("https://example.com/a.png", "fetches no other address"),
            ("file:///etc/passwd", "fetches no other address"),
            ("data:image/png", "fetches no other address"),
            ("ädata:", "fetches no other address"),
            ("", "fetches no other address"),
            ("data:text/plain,hello", "base64"),
            ("data:image/png;base64,A", "not valid base64"),
            ("data:image/png;base64,AQ=\n=", "not valid base64"),
            ("data:image/png;base64,AQIDBAUGBwgJ", "too large"),
        ] {
            let refused = parsed(url).unwrap_err();
            assert!(refused.contains(words), "{url}: {refused}");
        }
    }
}
