//! The time in which a certificate is valid, read from its DER.
//!
//! The TLS library checks the times of other people's certificates only, and does not show them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The tags of DER that the way to the times meets.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Fields between the version and the times: serial number, signature algorithm and issuer.
const FIELDS_BEFORE: usize = 3;

/// Bytes of the length of one element; a certificate is far smaller than four bytes can say.
const MAX_LENGTH_BYTES: usize = 4;

/// Years of two digits below this one belong to this century.
const CENTURY: &str = "50";

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}

impl Validity {
    /// None if this is not a certificate.
    pub(super) fn of_certificate(certificate: &[u8]) -> Option<Self> {
        let signed = Element::first(certificate)?;
        let body = Element::first(signed.content)?;
        let first = Element::first(body.content)?;
        let mut fields = if first.tag == VERSION { first.rest } else { body.content };
        for _ in 0..FIELDS_BEFORE {
            fields = Element::first(fields)?.rest;
        }
        let begin = Element::first(Element::first(fields)?.content)?;
        let end = Element::first(begin.rest)?;
        Some(Self { begin: begin.time()?, end: end.time()? })
    }
}

/// One element of DER, and the bytes after it.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Element<'a> {
    fn first(der: &'a [u8]) -> Option<Self> {
        let [tag, length, rest @ ..] = der else { return None };
        let (length, rest) = match length.checked_sub(0x80).map(usize::from) {
            None => (usize::from(*length), rest),
            Some(count @ 1..=MAX_LENGTH_BYTES) => {
                let (bytes, rest) = rest.split_at_checked(count)?;
                (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
            }
            Some(_) => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        Some(Self { tag: *tag, content, rest })
    }

    fn time(&self) -> Option<Timestamp> {
        let text = std::str::from_utf8(self.content).ok()?;
        let text = match self.tag {
            UTC_TIME if text.get(..2)? < CENTURY => format!("20{text}"),
            UTC_TIME => format!("19{text}"),
            GENERALIZED_TIME => text.to_owned(),
            _ => return None,
        };
        let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
        // "No end" is written as the last second of the year 9999, which is later than the last known time.
        Some(TimeZone::UTC.to_timestamp(time).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(tag: u8, text: &str) -> Option<String> {
        Element { tag, content: text.as_bytes(), rest: &[] }.time().map(|time| time.to_string())
    }

    #[test]
    fn both_kinds_of_time_are_read() {
        assert_eq!(time(UTC_TIME, "491231235959Z").unwrap(), "2049-12-31T23:59:59Z");
        assert_eq!(time(UTC_TIME, "500101000000Z").unwrap(), "1950-01-01T00:00:00Z");
        assert_eq!(time(GENERALIZED_TIME, "20500102030405Z").unwrap(), "2050-01-02T03:04:05Z");
        assert_eq!(time(GENERALIZED_TIME, "99991231235959Z").unwrap(), Timestamp::MAX.to_string());
        assert_eq!(time(GENERALIZED_TIME, "20501302030405Z"), None);
        assert_eq!(time(UTC_TIME, "é"), None);
        assert_eq!(time(2, "20500102030405Z"), None);
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_times() {
        for wrong in
            [&[][..], &[0x30], &[0x30, 0x80], &[0x30, 0x85, 1, 1, 1, 1, 1], &[0x30, 5, 0x30, 3, 2, 1, 1]]
        {
            assert_eq!(Validity::of_certificate(wrong), None, "{wrong:?}");
        }
    }
}
