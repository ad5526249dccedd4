//! Apps and admins.

use serde_json::json;

use super::*;
use crate::config::JwksSource;

fn rules(change: impl FnOnce(&mut JwtIssuerConfig)) -> Result<ClaimRules, JwtIssuerFault> {
    let mut config = JwtIssuerConfig::new("shop", "https://shop", "rondo", JwksSource::Discovery);
    change(&mut config);
    ClaimRules::new(&config)
}

fn read(rules: &ClaimRules, claim: &str, value: Value) -> Result<VerifiedToken, TokenRefusal> {
    let mut claims = Map::new();
    claims.insert("sub".into(), json!("ada"));
    claims.insert("exp".into(), json!(1));
    claims.insert(claim.into(), value);
    rules.read(&claims, Timestamp::UNIX_EPOCH)
}

#[test]
fn a_token_is_good_for_the_apps_that_it_lists() {
    let all = rules(|_| ()).unwrap();
    assert_eq!(read(&all, "apps", json!("notes")).unwrap().apps, None);
    let some = rules(|config| config.app_claim = Some("apps".into())).unwrap();
    let apps = |value: Value| read(&some, "apps", value).map(|token| token.apps.unwrap());
    assert_eq!(apps(json!("notes")).unwrap(), ["notes"]);
    assert_eq!(apps(json!(" notes  tasks ")).unwrap(), ["notes", "tasks"]);
    assert_eq!(apps(json!(["notes", "tasks"])).unwrap(), ["notes", "tasks"]);
    assert_eq!(read(&some, "other", json!("notes")).unwrap().apps, Some(vec![]));
    for nothing in [json!(null), json!(""), json!([])] {
        assert_eq!(apps(nothing).unwrap(), [""; 0]);
    }
    assert_eq!(apps(json!(vec!["a"; 64])).unwrap().len(), 64);
    let refusal = Err(TokenRefusal::AppsNotAcceptable { claim: "apps".into() });
    for wrong in [json!(7), json!(true), json!({ "notes": true }), json!(["notes", 7]), json!(vec!["a"; 65])]
    {
        assert_eq!(apps(wrong), refusal);
    }
    assert_eq!(apps(json!("a ".repeat(65))), refusal);
}

#[test]
fn an_admin_is_named_by_true_or_by_the_configured_value() {
    let nobody = rules(|_| ()).unwrap();
    assert!(!read(&nobody, "admin", json!(true)).unwrap().admin);
    let flag = rules(|config| config.admin_claim = Some("admin".into())).unwrap();
    let role = rules(|config| config.admin_claim = Some("roles=admin".into())).unwrap();
    let is_admin = |rules: &ClaimRules, claim: &str, value: Value| read(rules, claim, value).unwrap().admin;
    assert!(is_admin(&flag, "admin", json!(true)));
    for value in [json!("true"), json!(1), json!([true]), json!(false), json!(null), json!({ "admin": true })]
    {
        assert!(!is_admin(&flag, "admin", value));
    }
    assert!(is_admin(&role, "roles", json!("admin")));
    assert!(is_admin(&role, "roles", json!(["user", "admin"])));
    assert!(is_admin(&role, "roles", json!("user admin")), "as in the claim `scope`");
    for value in [json!("admins"), json!(["Admin"]), json!(true), json!({ "admin": true })] {
        assert!(!is_admin(&role, "roles", value));
    }
    for text in ["roles=", "=admin", "="] {
        let wrong = rules(|config| config.admin_claim = Some(text.into()));
        assert_eq!(wrong.err(), Some(JwtIssuerFault::AdminClaim));
    }
}
