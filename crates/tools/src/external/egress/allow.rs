//! The operator's list of what is open beside the public internet: hosts, addresses and networks.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// Ports that are open on every public host.
const PORTS: &[u16] = &[80, 443];

/// The places that tools may reach beside public hosts on the usual ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// A name, as it stands in a URL.
    Name {
        name: String,
        port: Option<u16>,
    },
    Address {
        address: IpAddr,
        port: Option<u16>,
    },
    Network(IpNet),
}

/// A line of the list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAllowable(String);

impl fmt::Display for NotAllowable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(entry) = self;
        write!(
            f,
            "{entry:?} is not a host; write a name, an address or a network, the first two with or without a \
             port, such as \
             \"search.internal\", \"127.0.0.1:8080\", \"[::1]:8080\" or \"10.1.0.0/16\""
        )
    }
}

impl std::error::Error for NotAllowable {}

impl Allowed {
    /// Opens one more host, address or network.
    pub fn add(&mut self, entry: &str) -> Result<(), NotAllowable> {
        let parsed = parse(entry.trim()).ok_or_else(|| NotAllowable(entry.to_owned()))?;
        if !self.entries.contains(&parsed) {
            self.entries.push(parsed);
        }
        Ok(())
    }

    /// Opens the host of a URL that the operator has written, for its port alone.
    pub fn add_url(&mut self, url: &str) -> Result<(), NotAllowable> {
        let refused = || NotAllowable(url.to_owned());
        let url = reqwest::Url::parse(url).map_err(|_| refused())?;
        let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or_else(refused)?;
        self.add(&format!("{host}:{port}"))
    }

    /// Whether a name is opened with all its addresses, for a port.
    pub(super) fn name(&self, host: &str, wanted: u16) -> bool {
        self.entries.iter().any(|entry| match entry {
            Entry::Name { name, port } => name == host && port.is_none_or(|port| port == wanted),
            Entry::Address { .. } | Entry::Network(_) => false,
        })
    }

    /// Whether an address that stands in a URL is opened, for a port.
    pub(super) fn address(&self, host: IpAddr, wanted: u16) -> bool {
        let host = host.to_canonical();
        self.entries.iter().any(|entry| match entry {
            Entry::Name { .. } => false,
            Entry::Address { address, port } => *address == host && port.is_none_or(|port| port == wanted),
            Entry::Network(net) => net.contains(&host),
        })
    }

    /// Whether every name that leads to the address may be followed there.
    pub(super) fn network(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.entries.iter().any(|entry| matches!(entry, Entry::Network(net) if net.contains(&address)))
    }

    pub(super) fn port(port: u16) -> bool {
        PORTS.contains(&port)
    }
}

fn parse(entry: &str) -> Option<Entry> {
    if let Ok(net) = entry.parse::<IpNet>() {
        return Some(Entry::Network(net.trunc()));
    }
    let (host, port) = match entry.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some("x")))
        }
        None if entry.parse::<IpAddr>().is_ok() => (entry, None),
        None => entry.split_once(':').map_or((entry, None), |(host, port)| (host, Some(port))),
    };
    let port = port
        .map(|port| port.parse::<u16>().ok().filter(|port| *port > 0))
        .map_or(Some(None), |port| port.map(Some))?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Entry::Address { address: address.to_canonical(), port });
    }
    // As a URL would spell it: in lower case, and other letters than ASCII's in their encoding.
    let name = reqwest::Url::parse(&format!("http://{host}/")).ok()?.domain()?.to_owned();
    let plain = !host.contains(['/', '@', '?', '#', '*', '\\', ' ']);
    (plain && !name.is_empty()).then_some(Entry::Name { name, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(entries: &[&str]) -> Allowed {
        let mut allowed = Allowed::default();
        for entry in entries {
            allowed.add(entry).unwrap();
        }
        allowed
    }

    #[test]
    fn a_name_is_opened_as_it_is_written_and_for_its_port() {
        let allowed = allowed(&["Search.Internal:8888", "wiki.internal"]);
        assert!(allowed.name("search.internal", 8888));
        assert!(!allowed.name("search.internal", 80));
        assert!(!allowed.name("other.search.internal", 8888));
        assert!(allowed.name("wiki.internal", 9));
    }

    #[test]
    fn an_address_is_opened_where_it_is_spelt_out_and_a_network_wherever_a_name_leads() {
        let allowed = allowed(&["127.0.0.1:8888", "[::1]:9", "fd00::7", "10.1.0.0/16"]);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(allowed.address(address("127.0.0.1"), 8888));
        assert!(allowed.address(address("::ffff:127.0.0.1"), 8888), "the same address in another spelling");
        assert!(!allowed.address(address("127.0.0.1"), 80));
        assert!(!allowed.network(address("127.0.0.1")), "no name leads there");
        assert!(allowed.address(address("::1"), 9));
        assert!(allowed.address(address("fd00::7"), 1));
        assert!(allowed.address(address("10.1.2.3"), 80) && allowed.network(address("10.1.2.3")));
        assert!(!allowed.network(address("10.2.0.1")));
    }

    #[test]
    fn the_host_of_a_url_is_opened_for_its_own_port() {
        let mut allowed = Allowed::default();
        allowed.add_url("http://127.0.0.1:9999/base").unwrap();
        allowed.add_url("https://search.internal").unwrap();
        assert!(allowed.address("127.0.0.1".parse().unwrap(), 9999));
        assert!(allowed.name("search.internal", 443) && !allowed.name("search.internal", 80));
        assert!(allowed.add_url("nonsense").is_err());
    }

    #[test]
    fn what_is_no_host_is_refused_with_what_to_write() {
        for entry in [
            "",
            "http://x.test",
            "a b",
            "x:0",
            "x:99999",
            "x:port",
            "*.internal",
            "[::1]9",
            "10.0.0.0/64",
            "a@b",
        ] {
            let error = Allowed::default().add(entry).unwrap_err().to_string();
            assert!(error.contains("search.internal"), "{entry}: {error}");
        }
    }
}
