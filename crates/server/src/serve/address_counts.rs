//! How many connections each address has open, so that one client cannot take the place of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tokio::time::Instant;

/// Connections of one address where nothing is configured. Loopback then has no limit of its own.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 1024;
/// The shortest time between two log lines about one address.
const REPORT_PAUSE: Duration = Duration::from_mins(1);
/// Addresses whose last log line is remembered. Further addresses get no line until there is room.
const MAX_REPORTS: usize = 1024;
/// The part of an IPv6 address that one customer of a network has: a /64.
const NETWORK_BITS: u32 = 64;

/// Counts open connections. An address without one is not in the map, so the map stays as small as what is open.
#[derive(Debug)]
pub(super) struct AddressCounts {
    configured: Option<usize>,
    trusted_proxies: Vec<IpNet>,
    open: Mutex<HashMap<IpAddr, usize>>,
    reports: Mutex<HashMap<IpAddr, Instant>>,
}

/// The place of one connection; dropping it makes room for the next.
#[derive(Debug)]
pub(super) struct AddressPermit {
    /// None for an address without a limit.
    counted: Option<(Arc<AddressCounts>, IpAddr)>,
}

impl AddressCounts {
    pub(super) fn new(configured: Option<usize>, trusted_proxies: Vec<IpNet>) -> Arc<Self> {
        let (open, reports) = (Mutex::default(), Mutex::default());
        Arc::new(Self { configured, trusted_proxies, open, reports })
    }

    /// A permit, unless the address has its connections already.
    pub(super) fn permit(self: &Arc<Self>, peer: IpAddr) -> Option<AddressPermit> {
        let address = peer.to_canonical();
        let Some(most) = self.limit(address) else { return Some(AddressPermit { counted: None }) };
        let counted = counted_address(address);
        let mut open = lock(&self.open);
        let count = open.entry(counted).or_default();
        if *count < most {
            *count += 1;
            return Some(AddressPermit { counted: Some((Arc::clone(self), counted)) });
        }
        drop(open);
        self.report(counted, most);
        None
    }

    /// None for an address that may have any number of connections.
    fn limit(&self, address: IpAddr) -> Option<usize> {
        if self.trusted_proxies.iter().any(|net| net.contains(&address)) {
            return None; // its connections are those of many clients
        }
        self.configured.or_else(|| (!address.is_loopback()).then_some(MAX_CONNECTIONS_PER_ADDRESS))
    }

    fn report(&self, address: IpAddr, most: usize) {
        if self.may_report(address, Instant::now()) {
            tracing::warn!(
                client = %address,
                "this address has {most} connections, so its new ones are closed; raise \
                 server.max_connections_per_address, or name a proxy in server.trusted_proxies"
            );
        }
    }

    fn may_report(&self, address: IpAddr, now: Instant) -> bool {
        let mut reports = lock(&self.reports);
        let is_recent = |last: &Instant| now.duration_since(*last) < REPORT_PAUSE;
        if reports.get(&address).is_some_and(is_recent) {
            return false;
        }
        if reports.len() >= MAX_REPORTS {
            reports.retain(|_, last| is_recent(last));
        }
        if reports.len() >= MAX_REPORTS {
            return false;
        }
        reports.insert(address, now);
        true
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some((counts, address)) = &self.counted else { return };
        let mut open = lock(&counts.open);
        if let Some(count) = open.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                open.remove(address);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address itself, or the network of an IPv6 address: a client can choose the rest of it freely.
fn counted_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = u128::MAX << (Ipv6Addr::BITS - NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & network).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_address_has_its_own_room_and_gets_it_back() {
        let counts = AddressCounts::new(Some(2), Vec::new());
        let first = counts.permit(address("10.0.0.1"));
        let second = counts.permit(address("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some());
        assert!(counts.permit(address("10.0.0.1")).is_none(), "both spellings are one address");
        assert!(counts.permit(address("10.0.0.2")).is_some());
        drop(first);
        let third = counts.permit(address("10.0.0.1"));
        assert!(third.is_some());
        drop((second, third));
        assert!(lock(&counts.open).is_empty(), "the map has open connections only");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let counts = AddressCounts::new(Some(1), Vec::new());
        let _first = counts.permit(address("2001:db8:1:2::1")).unwrap();
        assert!(counts.permit(address("2001:db8:1:2:ffff::9")).is_none());
        assert!(counts.permit(address("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn loopback_and_proxies_are_limited_only_where_that_is_configured() {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let usual = AddressCounts::new(None, proxies.clone());
        let configured = AddressCounts::new(Some(7), proxies);
        for (text, expected) in [
            ("127.0.0.1", (None, Some(7))),
            ("::1", (None, Some(7))),
            ("10.1.2.3", (None, None)),
            ("192.0.2.1", (Some(1024), Some(7))),
            ("2001:db8::1", (Some(1024), Some(7))),
        ] {
            assert_eq!((usual.limit(address(text)), configured.limit(address(text))), expected, "{text}");
        }
    }

    #[test]
    fn an_address_is_reported_once_a_minute() {
        let counts = AddressCounts::new(None, Vec::new());
        let start = Instant::now();
        assert!(counts.may_report(address("10.0.0.1"), start));
        assert!(!counts.may_report(address("10.0.0.1"), start + REPORT_PAUSE / 2));
        assert!(counts.may_report(address("10.0.0.2"), start));
        assert!(counts.may_report(address("10.0.0.1"), start + REPORT_PAUSE));
        for host in 0..2 * u32::try_from(MAX_REPORTS).unwrap() {
            counts.may_report(std::net::Ipv4Addr::from_bits(host).into(), start + REPORT_PAUSE);
        }
        assert_eq!(lock(&counts.reports).len(), MAX_REPORTS);
    }
}
