//! The delivery of webhooks, signed as Standard Webhooks says, by the one way out.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use sha2::Sha256;
use tokio::time::timeout;

use super::ExternalAccess;
use super::egress::Outgoing;

/// How long a receiver may take to answer.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(15);

/// The beginning of a secret, before its base64.
const SECRET_PREFIX: &str = "whsec_";

/// Bytes that a key may have.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

/// The status of a receiver that wants nothing more.
const GONE: u16 = 410;

/// A message on its way to a receiver.
#[derive(Debug, Clone)]
pub struct WebhookMessage<'a> {
    pub url: &'a str,
    /// The name of the operator's secret.
    pub secret: &'a str,
    /// The id, which is the same for each attempt, so that a receiver can tell doubles.
    pub id: String,
    /// The time of this attempt.
    pub sent_at: Timestamp,
    pub body: String,
}

/// Why a message was not delivered, in words that tell nothing of what is behind the border.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UndeliveredWebhook {
    pub reason: String,
    /// The receiver wants nothing more, so that another attempt is no use.
    pub is_final: bool,
}

impl UndeliveredWebhook {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_final: false }
    }
}

/// Delivers a message. Only an answer with a status from 200 to 299 counts; a redirect is not followed.
pub async fn deliver_webhook(
    access: &ExternalAccess,
    message: WebhookMessage<'_>,
) -> Result<(), UndeliveredWebhook> {
    let WebhookMessage { url, secret, id, sent_at, body } = message;
    let key = access.secrets.webhook_key(secret)?;
    let url = Url::parse(url).map_err(|_| UndeliveredWebhook::new("the url cannot be read"))?;
    let seconds = sent_at.as_second().to_string();
    let signature = signature(&key, &id, &seconds, &body)
        .ok_or_else(|| UndeliveredWebhook::new("the message cannot be signed"))?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in [
        (HeaderName::from_static("webhook-id"), id),
        (HeaderName::from_static("webhook-timestamp"), seconds),
        (HeaderName::from_static("webhook-signature"), signature),
    ] {
        let value = HeaderValue::from_str(&value)
            .map_err(|_| UndeliveredWebhook::new("the message cannot be addressed"))?;
        headers.insert(name, value);
    }
    let request = Outgoing { method: Method::POST, url, headers, body: Some(Bytes::from(body)) };
    let answered = timeout(DELIVERY_TIMEOUT, access.egress.open(request)).await;
    let response = match answered {
        Ok(response) => response.map_err(|error| UndeliveredWebhook::new(error.to_string()))?,
        Err(_) => {
            let seconds = DELIVERY_TIMEOUT.as_secs();
            return Err(UndeliveredWebhook::new(format!(
                "the receiver did not answer within {seconds} seconds"
            )));
        }
    };
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let reason = format!("the receiver answered with the status {status}");
    Err(UndeliveredWebhook { reason, is_final: status == GONE })
}

/// The key in a secret: base64 after the prefix.
pub(super) fn read_key(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.trim().strip_prefix(SECRET_PREFIX)?).ok()?;
    KEY_BYTES.contains(&key.len()).then_some(key)
}

/// The value of the header `webhook-signature`.
fn signature(key: &[u8], id: &str, seconds: &str, body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in [id, ".", seconds, ".", body] {
        mac.update(part.as_bytes());
    }
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        let key = read_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn a_key_is_base64_after_its_prefix() {
        for wrong in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%%%%"] {
            assert_eq!(read_key(wrong), None, "{wrong}");
        }
    }
}
