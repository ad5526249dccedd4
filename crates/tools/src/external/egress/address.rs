//! Which addresses every tool may reach: those of the public internet, and none of the special-purpose ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of IPv4 that are not the public internet, by first address and length of the prefix. From IANA's registry of
/// special-purpose addresses, and multicast.
const CLOSED_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([192, 175, 48, 0], 24),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 3),
];

/// Closed ranges within the global unicast range of IPv6, outside of which everything is closed. Ranges that stand for
/// addresses of IPv4 are closed as a whole: a host that can be reached that way can be reached directly.
const CLOSED_V6: &[([u16; 8], u32)] = &[
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// `2000::/3`, the only range of IPv6 from which public addresses are given.
const GLOBAL_V6: ([u16; 8], u32) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !CLOSED_V4.iter().any(|(first, prefix)| {
        let shift = u32::BITS - prefix;
        bits >> shift == Ipv4Addr::from(*first).to_bits() >> shift
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(first, prefix): &([u16; 8], u32)| {
        let shift = u128::BITS - prefix;
        address.to_bits() >> shift == Ipv6Addr::from(*first).to_bits() >> shift
    };
    within(&GLOBAL_V6) && !CLOSED_V6.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(addresses: &[&str], public: bool) {
        for address in addresses {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn the_public_internet_is_open() {
        all(&["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255"], true);
        all(&["100.128.0.0", "223.255.255.255", "198.17.255.255", "198.20.0.0", "192.0.1.0"], true);
        all(&["2606:4700:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "::ffff:8.8.8.8"], true);
    }

    #[test]
    fn what_is_not_the_public_internet_is_closed() {
        all(&["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.255"], false);
        all(&["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1", "192.0.0.192"], false);
        all(&["198.18.0.1", "198.19.255.255", "224.0.0.1", "239.255.255.255", "255.255.255.255"], false);
        all(&["::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"], false);
        all(&["64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::1", "2001:db8::1"], false);
        all(&["fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "100::1", "5f00::1"], false);
    }
}
