//! The server that this configuration describes, as commands on this machine reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::config::Config;
use crate::control::ControlFile;

/// The address of the server, and the certificates that it may show.
pub(crate) struct OwnServer {
    pub(crate) url: String,
    /// Fingerprints; none for a server without TLS.
    pub(crate) certificates: Vec<String>,
}

impl OwnServer {
    /// The certificate is the one that the running server has written down, or else the one that it would read.
    pub(crate) fn of(config: &Config) -> Self {
        let url = url(config, config.listen);
        let Some(files) = &config.tls else { return Self { url, certificates: Vec::new() } };
        let written = ControlFile::of(&config.data).map(|control| control.certificates).unwrap_or_default();
        let certificates = match written.is_empty() {
            true => server::certificate_fingerprint(&files.cert).into_iter().collect(),
            false => written,
        };
        Self { url, certificates }
    }
}

/// The URL by which this machine reaches a server that listens on an address.
pub(crate) fn url(config: &Config, listen: SocketAddr) -> String {
    format!("{}://{}", scheme(config), own_address(listen))
}

pub(crate) fn scheme(config: &Config) -> &'static str {
    if config.tls.is_some() { "https" } else { "http" }
}

/// A server on all addresses is on loopback, too.
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
