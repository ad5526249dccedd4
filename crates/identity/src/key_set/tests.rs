//! Keys that are left out.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::*;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// How many keys for this algorithm are in a set of one key.
fn usable(key: &Value, algorithm: JwtAlgorithm) -> usize {
    let set = KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes()).unwrap();
    assert_eq!(set.len() + set.left_out, 1);
    assert_eq!(
        set.len(),
        JwtAlgorithm::ALL.iter().map(|one| set.candidates(None, *one).count()).sum::<usize>()
    );
    set.candidates(Some("k"), algorithm).count()
}

fn ec() -> Value {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    json!({ "kty": "EC", "crv": "P-256", "kid": "k", "x": encode(x), "y": encode(y) })
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Value {
    json!({ "kty": "RSA", "kid": "k", "n": encode(modulus), "e": encode(exponent) })
}

fn changed(key: &Value, name: &str, value: Value) -> Value {
    let mut key = key.clone();
    key[name] = value;
    key
}

#[test]
fn a_key_agrees_with_its_own_description() {
    let key = ec();
    assert_eq!(usable(&key, JwtAlgorithm::ES256), 1);
    assert_eq!(usable(&key, JwtAlgorithm::RS256), 0);
    for (name, value) in [
        ("use", json!("sig")),
        ("alg", json!("ES256")),
        ("key_ops", json!(["verify"])),
        ("key_ops", json!(["sign", "verify"])),
        ("x5c", json!(["anything"])),
    ] {
        assert_eq!(usable(&changed(&key, name, value.clone()), JwtAlgorithm::ES256), 1, "{name}: {value}");
    }
    for (name, value) in [
        ("use", json!("enc")),
        ("use", json!("")),
        ("alg", json!("RS256")),
        ("alg", json!("HS256")),
        ("alg", json!("ES384")),
        ("alg", json!("none")),
        ("key_ops", json!(["sign"])),
        ("key_ops", json!([])),
        ("kty", json!("RSA")),
        ("kty", json!("OKP")),
        ("kty", json!("oct")),
        ("kty", json!("ec")),
        ("kty", Value::Null),
        ("crv", json!("P-384")),
        ("crv", json!("Ed25519")),
        ("crv", json!("secp256k1")),
        ("crv", Value::Null),
        ("kid", json!(7)),
        ("kid", json!("other")),
    ] {
        assert_eq!(usable(&changed(&key, name, value.clone()), JwtAlgorithm::ES256), 0, "{name}: {value}");
    }
}

#[test]
fn a_point_must_be_on_the_curve() {
    let key = ec();
    let x = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
    let mut off = URL_SAFE_NO_PAD.decode(key["y"].as_str().unwrap()).unwrap();
    off[31] ^= 1;
    for (name, value) in [
        ("y", encode(&off)),
        ("y", encode([0; 32])),
        ("x", encode([0xff; 32])),
        ("x", encode(&x[1..])),
        ("x", encode([&[0], x.as_slice()].concat())),
        ("x", String::new()),
        ("x", "!".into()),
    ] {
        assert_eq!(usable(&changed(&key, name, json!(value)), JwtAlgorithm::ES256), 0, "{name}: {value}");
    }
    // 31 and 33 bytes are 64 together, and their point would be read at another place.
    let y = URL_SAFE_NO_PAD.decode(key["y"].as_str().unwrap()).unwrap();
    let moved =
        changed(&changed(&key, "x", json!(encode(&x[..31]))), "y", json!(encode([&x[31..], &y].concat())));
    assert_eq!(usable(&moved, JwtAlgorithm::ES256), 0);
}

#[test]
fn an_rsa_key_has_at_least_2048_bits_and_a_usual_exponent() {
    let modulus = [0xc5; 256];
    let usual = [1, 0, 1];
    assert_eq!(usable(&rsa(&modulus, &usual), JwtAlgorithm::RS256), 1);
    assert_eq!(usable(&rsa(&[&[0], modulus.as_slice()].concat(), &[0, 1, 0, 1]), JwtAlgorithm::RS256), 1);
    let mut shorter = modulus;
    shorter[0] = 0x7f;
    let short = [0xc5; 128];
    for modulus in [&shorter[..], &modulus[1..], &short, &[0xc5; 1025], &[], &[0; 256]] {
        assert_eq!(usable(&rsa(modulus, &usual), JwtAlgorithm::RS256), 0, "{} bytes", modulus.len());
    }
    for exponent in [&[1][..], &[0], &[], &[2], &[1, 0, 0], &[0xff; 8]] {
        assert_eq!(usable(&rsa(&modulus, exponent), JwtAlgorithm::RS256), 0, "{exponent:?}");
    }
}

#[test]
fn an_edwards_key_has_32_bytes() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let public = pair.public_key().as_ref();
    let key = |x: &[u8]| json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": encode(x) });
    assert_eq!(usable(&key(public), JwtAlgorithm::EdDSA), 1);
    assert_eq!(usable(&key(&public[1..]), JwtAlgorithm::EdDSA), 0);
    assert_eq!(usable(&changed(&key(public), "crv", json!("X25519")), JwtAlgorithm::EdDSA), 0);
    assert_eq!(usable(&changed(&key(public), "kty", json!("EC")), JwtAlgorithm::EdDSA), 0);
}
