//! Configurations that cannot be used.

use super::*;

fn entry(name: &str) -> JwtIssuerConfig {
    JwtIssuerConfig::new(name, &format!("https://{name}"), "rondo", JwksSource::Discovery)
}

fn fault(change: impl FnOnce(&mut JwtIssuerConfig)) -> Option<JwtIssuerFault> {
    let mut config = entry("shop");
    change(&mut config);
    config.check().err()
}

#[test]
fn an_entry_with_defaults_is_good() {
    assert_eq!(fault(|_| ()), None);
    let config = entry("shop");
    assert_eq!((config.prefix.as_str(), config.user_claim.as_str()), ("shop:", "sub"));
    assert_eq!(config.leeway, Duration::from_secs(60));
}

#[test]
fn each_setting_has_its_bounds() {
    for name in ["", "Shop", "my shop", "a:b", "é", &"x".repeat(41)] {
        assert_eq!(fault(|config| config.name = name.into()), Some(JwtIssuerFault::Name), "{name}");
    }
    for issuer in ["", " https://a", "https://a\n"] {
        assert_eq!(fault(|config| config.issuer = issuer.into()), Some(JwtIssuerFault::Issuer));
    }
    assert_eq!(fault(|config| config.audiences.clear()), Some(JwtIssuerFault::Audiences));
    assert_eq!(fault(|config| config.audiences.push(String::new())), Some(JwtIssuerFault::Audiences));
    assert_eq!(fault(|config| config.algorithms.clear()), Some(JwtIssuerFault::Algorithms));
    assert_eq!(fault(|config| config.user_claim.clear()), Some(JwtIssuerFault::Claim));
    assert_eq!(fault(|config| config.app_claim = Some(String::new())), Some(JwtIssuerFault::Claim));
    for prefix in ["a b", "é:", &"x".repeat(65)] {
        assert_eq!(fault(|config| config.prefix = prefix.into()), Some(JwtIssuerFault::Prefix));
    }
    assert_eq!(fault(|config| config.prefix.clear()), None);
    assert_eq!(fault(|config| config.leeway = Duration::from_secs(300)), None);
    assert_eq!(fault(|config| config.leeway = Duration::from_millis(300_001)), Some(JwtIssuerFault::Leeway));
}

#[test]
fn two_entries_accept_different_tokens_and_name_different_users() {
    let one = entry("one");
    let beside = |change: fn(&mut JwtIssuerConfig)| {
        let mut two = entry("two");
        change(&mut two);
        two.check_beside(&one).err()
    };
    let same_prefix = Some(JwtIssuerFault::SamePrefix { other: "one".into() });
    assert_eq!(beside(|_| ()), None);
    assert_eq!(beside(|two| two.name = "one".into()), Some(JwtIssuerFault::NameTwice));
    let same_tokens = Some(JwtIssuerFault::SameTokens { other: "one".into() });
    assert_eq!(beside(|two| two.issuer = "https://one".into()), same_tokens);
    assert_eq!(beside(|two| two.prefix = "one:".into()), same_prefix);
    assert_eq!(beside(|two| two.prefix = "one:two:".into()), same_prefix);
    assert_eq!(beside(|two| two.prefix = "o".into()), same_prefix);
    assert_eq!(beside(|two| two.prefix.clear()), None);
    // Both entries name one set of users, who sign in to two clients of one issuer.
    let shared = |two: &mut JwtIssuerConfig| {
        two.issuer = "https://one".into();
        two.audiences = vec!["phone".into()];
        two.prefix = "one:".into();
    };
    assert_eq!(beside(shared), None);
}

#[test]
fn two_issuers_without_prefixes_are_refused() {
    let plain = |name: &str| JwtIssuerConfig { prefix: String::new(), ..entry(name) };
    let fault = plain("two").check_beside(&plain("one"));
    assert_eq!(fault, Err(JwtIssuerFault::SamePrefix { other: "one".into() }));
}

#[test]
fn algorithms_are_read_by_their_exact_names() {
    let read = |name: &str| serde_json::from_value::<JwtAlgorithm>(name.into()).ok();
    for algorithm in JwtAlgorithm::ALL {
        assert_eq!(read(algorithm.name()), Some(algorithm));
        assert_eq!(JwtAlgorithm::from_name(algorithm.name()), Some(algorithm));
    }
    for name in ["none", "HS256", "rs256", "RS384", "PS256", ""] {
        assert_eq!((read(name), JwtAlgorithm::from_name(name)), (None, None));
    }
}
