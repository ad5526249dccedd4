//! The address of a PostgreSQL database, as `RONDO_STORE` names it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;

/// The schema of the tables, unless the address names another with `?schema=NAME`.
const SCHEMA: &str = "rondo";

/// The longest name of a schema.
const MAX_SCHEMA_BYTES: usize = 63;

/// How long a connection may take to be made, unless the address says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The address of a database, and how to sign in there.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) schema: String,
    /// Present if the address asks for TLS with `sslmode=require`. The certificate of the server is then checked.
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl PartialEq for PostgresAddress {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.schema == other.schema
    }
}

impl PostgresAddress {
    /// Returns the name that the lock of the schema is made of.
    pub(super) fn lock_name(&self) -> String {
        format!("rondo {}", self.schema)
    }

    /// The schema of the tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }
}

impl FromStr for PostgresAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (text, schema) = without_schema(text);
        let schema = schema.unwrap_or_else(|| SCHEMA.to_owned());
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins_well = schema.starts_with(|c: char| c.is_ascii_lowercase());
        // The text may be a part of a password, so no error repeats it.
        if schema.len() > MAX_SCHEMA_BYTES
            || !begins_well
            || schema.starts_with("pg_")
            || !schema.chars().all(is_name)
        {
            let rule = "the schema in the address of PostgreSQL must be a name of lower-case letters, digits and \
                underscores that does not begin with pg_";
            return Err(Error::Unusable(rule.to_owned()));
        }
        let mut config: Config = text
            .parse()
            .map_err(|error| Error::Unusable(format!("the address of PostgreSQL cannot be read: {error}")))?;
        let has_sign = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(has_sign) {
            let rule = "the password in the address of PostgreSQL has an @, which must be written as %40";
            return Err(Error::Unusable(rule.to_owned()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("rondo");
        }
        let tls = if config.get_ssl_mode() == SslMode::Require {
            Some(checked_tls()?)
        } else {
            // Without a way to check the server, encryption would only look safe.
            config.ssl_mode(SslMode::Disable);
            None
        };
        Ok(Self { config, schema, tls })
    }
}

/// TLS to a server whose certificate is from an authority that this machine trusts.
fn checked_tls() -> Result<MakeRustlsConnect, Error> {
    let unusable = |error: rustls::Error| Error::Unusable(format!("TLS cannot be used: {error}"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let checked = builder.with_safe_default_protocol_versions();
    let config = checked.and_then(|builder| builder.with_platform_verifier());
    Ok(MakeRustlsConnect::new(config.map_err(unusable)?.with_no_client_auth()))
}

/// Takes `schema=NAME` out of the part after the question mark.
fn without_schema(text: &str) -> (String, Option<String>) {
    let Some((base, query)) = text.split_once('?') else { return (text.to_owned(), None) };
    let mut schema = None;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.strip_prefix("schema=") {
            Some(name) => schema = Some(name.to_owned()),
            // A certificate is always checked.
            None if matches!(pair, "sslmode=verify-full" | "sslmode=verify-ca") => {
                kept.push("sslmode=require")
            }
            None => kept.push(pair),
        }
    }
    let kept = kept.join("&");
    (if kept.is_empty() { base.to_owned() } else { format!("{base}?{kept}") }, schema)
}

/// Without the password.
impl Display for PostgresAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "PostgreSQL {database} on {} (schema {})", hosts.join(", "), self.schema)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
