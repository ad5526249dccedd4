//! Addresses that keys may come from.

use super::*;

#[test]
fn keys_come_over_tls_or_from_this_machine() {
    for url in [
        "https://sign-in.example/keys",
        "https://10.0.0.7:8443/keys?x=1",
        "http://127.0.0.1:8080/keys",
        "http://127.9.9.9/keys",
        "http://localhost/keys",
        "http://[::1]:80/keys",
    ] {
        assert!(key_url(url).is_some(), "{url}");
    }
    for url in [
        "http://sign-in.example/keys",
        "http://10.0.0.7/keys",
        "http://localhost.example/keys",
        "http://127.0.0.1.example/keys",
        "http://0.0.0.0/keys",
        "https://ada:secret@sign-in.example/keys",
        "https://ada@sign-in.example/keys",
        "file:///keys.json",
        "ftp://sign-in.example/keys",
        "sign-in.example/keys",
        "https://",
        "",
    ] {
        assert!(key_url(url).is_none(), "{url}");
    }
}

#[test]
fn the_configuration_check_names_the_address() {
    let config = |issuer: &str, keys: JwksSource| JwtIssuerConfig::new("shop", issuer, "rondo", keys);
    let fault = |config: JwtIssuerConfig| KeySource::new(&config).err();
    let plain = JwksSource::Url("http://sign-in.example/keys".into());
    assert_eq!(fault(config("https://a", plain)), Some(JwtIssuerFault::KeyAddress));
    assert_eq!(
        fault(config("http://sign-in.example", JwksSource::Discovery)),
        Some(JwtIssuerFault::KeyAddress)
    );
    assert_eq!(fault(config("shop", JwksSource::Discovery)), Some(JwtIssuerFault::KeyAddress));
    assert_eq!(fault(config("shop", JwksSource::File("keys.json".into()))), None);
    let Ok(KeySource::Discovery { url, .. }) = KeySource::new(&config("https://a/b/", JwksSource::Discovery))
    else {
        panic!("a source by discovery")
    };
    assert_eq!(url.as_str(), "https://a/b/.well-known/openid-configuration");
}
