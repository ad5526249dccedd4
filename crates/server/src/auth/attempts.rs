//! Failed attempts to authenticate, counted for each address, so that no client can try keys without end.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::error::{ApiProblem, ProblemCode};

/// Addresses that are remembered. Beyond, those that have not failed lately are forgotten.
const MAX_ADDRESSES: usize = 10_000;

/// Counts failed attempts. An address with too many is told to wait. A request with a good secret is no attempt that
/// fails, so other users behind the same address go on.
pub(crate) struct FailedAttempts {
    rate: DefaultKeyedRateLimiter<IpAddr>,
    clock: DefaultClock,
}

impl FailedAttempts {
    pub(crate) fn new(per_minute: NonZeroU32) -> Self {
        Self { rate: RateLimiter::keyed(Quota::per_minute(per_minute)), clock: DefaultClock::default() }
    }

    /// Counts an attempt that has failed. The error is for an address that has failed too often.
    pub(crate) fn note_failure(&self, address: Option<IpAddr>) -> Result<(), ApiProblem> {
        let Some(address) = address.map(network) else { return Ok(()) };
        if self.rate.len() > MAX_ADDRESSES {
            self.rate.retain_recent();
        }
        let Err(until) = self.rate.check_key(&address) else { return Ok(()) };
        let wait = until.wait_time_from(self.clock.now()).as_secs().saturating_add(1);
        tracing::debug!(client = %address, "too many failed attempts to authenticate");
        let detail = "too many requests from this address had no valid key, JWT or session; wait, and then send a \
                      valid one";
        let seconds = u32::try_from(wait).unwrap_or(u32::MAX);
        Err(ApiProblem::new(ProblemCode::TooManyAttempts, detail).retry_after(seconds))
    }
}

/// A user has a whole IPv6 network of 64 bits, so its addresses count as one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn is_refused(attempts: &FailedAttempts, from: &str) -> bool {
        let refusal = attempts.note_failure(address(from));
        refusal.is_err_and(|problem| problem.code() == ProblemCode::TooManyAttempts)
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let attempts = FailedAttempts::new(NonZeroU32::new(3).unwrap());
        for _ in 0..3 {
            assert!(!is_refused(&attempts, "203.0.113.7"));
        }
        assert!(is_refused(&attempts, "203.0.113.7"));
        assert!(is_refused(&attempts, "::ffff:203.0.113.7"));
        assert!(!is_refused(&attempts, "203.0.113.8"));
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_count_as_one() {
        let attempts = FailedAttempts::new(NonZeroU32::new(1).unwrap());
        assert!(!is_refused(&attempts, "2001:db8:1:2::1"));
        assert!(is_refused(&attempts, "2001:db8:1:2:ffff::9"));
        assert!(!is_refused(&attempts, "2001:db8:1:3::1"));
    }
}
