//! Texts that count as a secret, and ordinary text that must not.

use proptest::prelude::*;

use super::*;

#[test]
fn the_file_of_patterns_is_read() {
    let patterns = &*PATTERNS;
    assert!(
        patterns.key_prefixes.values().chain(patterns.account_lengths.values()).all(|length| *length >= 10)
    );
}

/// Joined here, so that no scanner takes the samples for real ones.
fn keys() -> Vec<String> {
    let long = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    [
        "sk-",
        "sk-proj-",
        "sk-ant-api03-",
        "sk-or-v1-",
        "ghp_",
        "gho_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "AIza",
        "glpat-",
        "hf_",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "gsk_",
        "npm_",
        "whsec_",
        "SG.",
        "ya29.",
    ]
    .iter()
    .map(|prefix| format!("{prefix}{long}"))
    .chain([format!("AKIA{}", "ABCDEFGH12345678")])
    .collect()
}

#[test]
fn keys_of_well_known_services_are_found_wherever_they_stand() {
    for key in keys() {
        let places = [
            key.clone(),
            format!("my key is {key}."),
            format!("KEY={key}"),
            format!("\"{key}\","),
            format!("(use `{key}`)"),
        ];
        for text in places {
            assert_eq!(find(&text), Some(ACCESS_KEY), "{text}");
        }
    }
}

#[test]
fn each_sort_of_secret_is_named() {
    for (text, expected) in [
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", KEY_BLOCK),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", KEY_BLOCK),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", SIGNED_TOKEN),
        ("Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N.", SIGNED_TOKEN),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", LONG_TOKEN),
        ("the secret is 9fQ2xLm7Zt4Rk8Wp1Vb6Nc3Hs5Jd0GyT", LONG_TOKEN),
        ("k3jh4g5zj3h4g5k3j4h5g3k4j5wg34k5", LONG_TOKEN),
        ("4111 1111 1111 1111", CARD),
        ("4111-1111-1111-1111", CARD),
        ("4111111111111111", CARD),
        ("card: 4111.1111.1111.1111, exp 12/30", CARD),
        ("4111\u{a0}1111\u{a0}1111\u{a0}1111", CARD),
        ("5555555555554444", CARD),
        ("2223 0031 2200 3222", CARD),
        ("my amex is 3782 822463 10005", CARD),
        ("378282246310005", CARD),
        ("6011111111111117", CARD),
        ("3530111333300000", CARD),
        ("30569309025904", CARD),
        ("4222222222222", CARD),
        ("DE89 3704 0044 0532 0130 00", ACCOUNT),
        ("my iban is de89370400440532013000.", ACCOUNT),
        ("GB82WEST12345698765432", ACCOUNT),
        ("NO93 8601 1117 947", ACCOUNT),
        ("FR14 2004 1010 0505 0001 3M02 606", ACCOUNT),
        ("my SSN is 123-45-6789", SOCIAL),
        ("(123-45-6789)", SOCIAL),
    ] {
        assert_eq!(find(text), Some(expected), "{text}");
    }
}

#[test]
fn ordinary_text_is_no_secret() {
    for text in [
        "",
        "my password is on a note in the drawer",
        "call me at +47 22 86 44 00",
        "+1 (415) 555-2671",
        "+4915112345678901",
        "0049 151 1234 5678",
        "born on 1990-05-03, moved 2021-11-30",
        "2026-02-03T14:05:06.123456789Z",
        "order 1234567890123456",
        "order no. 4111 1111 1111 1112",
        "ISBN 978-3-16-148410-0",
        "ISBN 9783161484100",
        "0000 0000 0000 0000",
        "000-12-3456",
        "666-12-3456",
        "900-12-3456",
        "123-00-4567",
        "123-45-67890",
        "1-123-45-6789",
        "550e8400-e29b-41d4-a716-446655440000",
        "mem_0190f5a7c2d17f3a9b8c6d5e4f302112",
        "d41d8cd98f00b204e9800998ecf8427e",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "https://example.com/a/9fQ2xLm7Zt4Rk8Wp1Vb6Nc3Hs5Jd0GyT/edit",
        "www.example.com/9fQ2xLm7Zt4Rk8Wp1Vb6Nc3Hs5Jd0GyT",
        "Documents/Projects2024/ClientReports/FinalVersion",
        "HP-LaserJet-4200-Series-2015-Edition",
        "my-very-long-file-name-2024-version-12-final.md",
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
        "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz",
        "pneumonoultramicroscopicsilicovolcanoconiosis",
        "I use sk-learn and scikit-learn-contrib-extras-package",
        "sk-short1",
        "the AKIA prefix",
        "hf_transfer",
        "eyJ is how they begin",
        "example.module.submodule",
        "NO idea what 12 of them 34 means",
        "DE89 3704 0044 0532 0130 01",
        "somebody.with.a.very.long.name.1234567890@example.com",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14",
        "4 8 15 16 23 42 108 316 1999 2024",
        "192.168.100.200:8080",
        "==============================================",
        "THE_QUICK_BROWN_FOX_JUMPED_OVER_2_LAZY_DOGS",
    ] {
        assert_eq!(find(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_can_be_searched(text in any::<String>()) {
        find(&text);
    }

    #[test]
    fn prose_is_no_secret(text in "([A-Za-z][a-z]{0,14}[ ,.!?\n]){0,30}") {
        prop_assert_eq!(find(&text), None);
    }

    #[test]
    fn a_wrong_digit_is_no_card(place in 0_usize..16, add in 1_u32..10) {
        let wrong = "4111111111111111".chars().enumerate().map(|(at, c)| {
            let digit = c.to_digit(10).unwrap();
            let digit = if at == place { (digit + add) % 10 } else { digit };
            char::from_digit(digit, 10).unwrap()
        });
        prop_assert_eq!(find(&wrong.collect::<String>()), None);
    }
}
