//! `rondo health`: whether the server accepts requests. Containers call it as their health check.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::StatusCode;

use crate::config::Config;
use crate::{CommandResult, cause, http};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct HealthOptions {
    /// The server's address; without it, the address that it is configured to listen on
    #[arg(long)]
    url: Option<String>,
}

pub(crate) async fn health(config: &Config, options: HealthOptions) -> CommandResult {
    let base = options.url.unwrap_or_else(|| format!("http://{}", own_address(config.listen)));
    let url = format!("{}/readyz", base.trim_end_matches('/'));
    let answer = http::client(&url, PATIENCE)?.get(&url).send().await;
    let answer = answer.map_err(|error| format!("cannot reach {base}: {}", cause(&error)))?;
    match answer.status() {
        StatusCode::OK => Ok(writeln!(std::io::stdout(), "ready")?),
        status => Err(format!("{url} answers {status}").into()),
    }
}

/// Where this machine reaches a server that listens on an address: a server on all addresses is on loopback, too.
fn own_address(listen: SocketAddr) -> SocketAddr {
    if !listen.ip().is_unspecified() {
        return listen;
    }
    let loopback: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    (loopback, listen.port()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_on_loopback() {
        for (listen, own) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("10.0.0.1:3", "10.0.0.1:3")]
        {
            assert_eq!(own_address(listen.parse().unwrap()), own.parse().unwrap());
        }
    }
}
