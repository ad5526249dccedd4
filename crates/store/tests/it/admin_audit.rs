//! The audit of admins: an entry with each change, in a chain in which every change is found.

use std::sync::Arc;

use protocol::{AppId, AuditEntryView, AuditKind, Ids};
use rusqlite::Connection;
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{McpOffer, PageOf};

use crate::keys::{add, apps, hash, new_key};
use crate::support::{Fixture, Forward, after};

/// At least one for each column.
const DAMAGES: [&str; 15] = [
    "UPDATE admin_audit SET number = 9 WHERE number = 5",
    "UPDATE admin_audit SET number = -1 WHERE number = 1",
    "UPDATE admin_audit SET at = at + 1 WHERE number = 1",
    "UPDATE admin_audit SET by = 'mallory' WHERE number = 2",
    "UPDATE admin_audit SET kind = 'key_rotated' WHERE number = 2",
    "UPDATE admin_audit SET app = NULL WHERE number = 2",
    "UPDATE admin_audit SET app = '' WHERE number = 1",
    "UPDATE admin_audit SET target = 'x' WHERE number = 3",
    "UPDATE admin_audit SET detail = '{}' WHERE number = 3",
    "UPDATE admin_audit SET hash = zeroblob(32) WHERE number = 5",
    "DELETE FROM admin_audit WHERE number = 1",
    "DELETE FROM admin_audit WHERE number = 3",
    "DELETE FROM admin_audit WHERE number = 5",
    "DELETE FROM admin_audit",
    "INSERT INTO admin_audit SELECT 6, at, by, kind, app, target, detail, hash FROM admin_audit WHERE number = 5",
];

/// The entries, newest first, each as its kind and its detail.
pub(crate) async fn told(fixture: &Fixture, apps: Option<Vec<AppId>>) -> Vec<(String, String)> {
    let entries = entries(fixture, apps).await;
    let told = |entry: AuditEntryView| (entry.kind.name().to_owned(), protocol::canonical(&entry.detail));
    entries.into_iter().map(told).collect()
}

/// All entries by pages of three.
async fn entries(fixture: &Fixture, apps: Option<Vec<AppId>>) -> Vec<AuditEntryView> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = fixture.store.admin_audit(apps.clone(), PageOf { after, limit: 3 }).await.unwrap();
        after = page.rows.last().map(|entry| entry.number);
        all.extend(page.rows);
        if !page.more {
            return all;
        }
    }
}

/// Five entries about keys of two apps.
async fn filled() -> Fixture {
    let fixture = Fixture::new();
    add(&fixture, 1, None).await;
    let key = add(&fixture, 2, Some("a")).await;
    add(&fixture, 3, Some("b")).await;
    fixture.store.revoke_key(key.id, None, "otto for ann".into()).await.unwrap();
    add(&fixture, 4, Some("a")).await;
    fixture
}

fn faults(fixture: &Fixture) -> Vec<String> {
    let audited = store::sqlite::audit(fixture.folder.path()).unwrap();
    let fault = |finding: String| finding.strip_prefix("the audit of admins: ").unwrap().to_owned();
    audited.findings.into_iter().map(fault).collect()
}

#[tokio::test]
async fn an_entry_says_who_did_what_to_whom_and_when() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    clock.to(5);
    let key = new_key(fixture.ids.fresh(), "ann", Some("a"));
    let key = protocol::KeyView { expires_at: Some(after(60)), ..key };
    fixture.store.add_key(key.clone(), hash(1), None).await.unwrap();
    let entries = entries(&fixture, None).await;
    let entry = AuditEntryView {
        number: 1,
        at: after(5),
        by: "olga".into(),
        kind: AuditKind::KeyMade,
        app: Some("a".into()),
        target: key.id.to_string(),
        detail: json!({
            "user": "ann", "app": "a", "rights": ["read", "run"], "actsFor": null, "expiresAt": after(60),
        }),
        hash: entries[0].hash.clone(),
    };
    assert_eq!(entries, [entry]);
}

#[tokio::test]
async fn an_admin_of_some_apps_sees_the_entries_about_these_apps() {
    let fixture = filled().await;
    let numbers = async |names: Option<&[&str]>| -> Vec<u64> {
        entries(&fixture, names.and_then(apps)).await.into_iter().map(|entry| entry.number).collect()
    };
    assert_eq!(numbers(None).await, [5, 4, 3, 2, 1]);
    assert_eq!(numbers(Some(&["a"])).await, [5, 4, 2]);
    assert_eq!(numbers(Some(&["b", "a"])).await, [5, 4, 3, 2]);
    assert_eq!(numbers(Some(&["c"])).await, [0; 0]);
}

#[tokio::test]
async fn e5_whatever_is_tampered_with_is_found() {
    let fixture = filled().await;
    assert_eq!(faults(&fixture), [""; 0]);
    let conn = fixture.database();
    conn.execute_batch(
        "DROP TRIGGER admin_audit_append; DROP TRIGGER admin_audit_fixed; DROP TRIGGER admin_audit_stays;
         CREATE TABLE kept AS SELECT * FROM admin_audit;",
    )
    .unwrap();
    for damage in DAMAGES {
        conn.execute_batch(&format!("BEGIN; {damage}; COMMIT")).expect(damage);
        assert!(!faults(&fixture).is_empty(), "not found: {damage}");
        conn.execute_batch(
            "BEGIN; DELETE FROM admin_audit; INSERT INTO admin_audit SELECT * FROM kept;
             UPDATE sqlite_sequence SET seq = 5 WHERE name = 'admin_audit'; COMMIT",
        )
        .unwrap();
    }
    assert_eq!(faults(&fixture), [""; 0]);
}

#[tokio::test]
async fn e5_entries_stay_as_they_are_and_have_no_gap() {
    let fixture = filled().await;
    let conn = fixture.database();
    let entry = "0, 'olga', 'key_made', NULL, 'x', '{}', zeroblob(32)";
    for (statement, rule) in [
        ("UPDATE admin_audit SET at = 0".to_owned(), "E5: entries of the audit do not change"),
        ("DELETE FROM admin_audit".to_owned(), "E5: entries of the audit stay"),
        (format!("INSERT INTO admin_audit VALUES (7, {entry})"), "E5: the numbers of the audit have no gap"),
        (format!("INSERT INTO admin_audit VALUES (5, {entry})"), "E5: the numbers of the audit have no gap"),
    ] {
        let error = conn.execute_batch(&statement).expect_err(&statement).to_string();
        assert!(error.contains(rule), "{statement}: {error}");
    }
}

#[tokio::test]
async fn e5_the_chain_can_be_checked_from_outside_by_what_is_written_about_it() {
    let fixture = filled().await;
    let conn = fixture.database();
    let mut before: [u8; 32] = Sha256::digest("rondo admin audit").into();
    let text = |text: &str| [&(text.len() as u64).to_be_bytes(), text.as_bytes()].concat();
    for (number, row) in (1_u64..).zip(stored(&conn)) {
        let (at, [by, kind, target, detail], app, hash) = row;
        let app = app.map_or(vec![0], |app| [vec![1], text(&app)].concat());
        let bytes = [
            before.to_vec(),
            number.to_be_bytes().to_vec(),
            at.to_be_bytes().to_vec(),
            text(&by),
            text(&kind),
            app,
            text(&target),
            text(&detail),
        ];
        before = Sha256::digest(bytes.concat()).into();
        assert_eq!(before, hash, "entry {number}");
    }
}

type StoredEntry = (i64, [String; 4], Option<String>, [u8; 32]);

fn stored(conn: &Connection) -> Vec<StoredEntry> {
    let mut find = conn
        .prepare("SELECT at, by, kind, target, detail, app, hash FROM admin_audit ORDER BY number")
        .unwrap();
    let rows = find.query_map([], |row| {
        let texts = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        Ok((row.get(0)?, texts, row.get(5)?, row.get(6)?))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_chain_is_longer_than_a_page_and_the_faults_are_bounded() {
    let fixture = Fixture::new();
    for number in 0..600_u64 {
        let mut hash = [1; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        let key = new_key(fixture.ids.fresh(), "ann", None);
        fixture.store.add_key(key, hash, None).await.unwrap();
    }
    assert_eq!(faults(&fixture), [""; 0]);
    let audited = store::sqlite::audit(fixture.folder.path()).unwrap();
    assert_eq!(audited.admin_entries, 600);
    let conn = fixture.database();
    conn.execute_batch("DROP TRIGGER admin_audit_fixed; UPDATE admin_audit SET at = 0 WHERE number > 400")
        .unwrap();
    assert_eq!(faults(&fixture).len(), store::Verified::MAX_FAULTS);
}

#[tokio::test]
async fn approvals_of_mcp_tools_are_entries_and_first_sights_are_not() {
    let fixture = Fixture::new();
    let app = AppId::new("a");
    let offer = |tool: &str, hash: &str| McpOffer {
        tool: tool.into(),
        definition: json!({ "name": tool }),
        hash: hash.into(),
    };
    let put = async |offered| fixture.store.put_mcp_tools(&app, "math", offered).await.unwrap();
    put(vec![offer("add", "h1"), offer("sub", "h1")]).await;
    assert_eq!(told(&fixture, None).await, []);
    put(vec![offer("add", "h2"), offer("sub", "h1"), offer("new", "h1")]).await;
    let approve = async |hash: &str| {
        let wanted = vec![("add".to_owned(), hash.to_owned())];
        fixture.store.approve_mcp_tools(&app, "math", wanted, "olga").await
    };
    assert!(approve("h1").await.is_err());
    approve("h2").await.unwrap();
    let revoke = async |tools: &[&str]| {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        fixture.store.revoke_mcp_tools(&app, "math", tools, "otto").await
    };
    assert!(revoke(&["add", "gone"]).await.is_err());
    revoke(&["new"]).await.unwrap(); // has no approval, so nothing changes
    revoke(&["new", "add"]).await.unwrap();
    let entries = entries(&fixture, apps(&["a"])).await;
    let by: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.by.as_str())).collect();
    assert_eq!(by, [(AuditKind::McpToolsRevoked, "otto"), (AuditKind::McpToolsApproved, "olga")]);
    for entry in &entries {
        assert_eq!((entry.target.as_str(), entry.app.as_deref()), ("math", Some("a")));
        assert_eq!(entry.detail, json!({ "tools": [{ "tool": "add", "hash": "h2" }] }));
    }
    assert_eq!(faults(&fixture), [""; 0]);
}
