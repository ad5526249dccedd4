//! Tools of servers: approved at first sight, then pinned, each app's own, within bounds, all of a change or nothing.

use std::sync::Arc;

use protocol::AppId;
use serde_json::{Value, json};
use store::{
    Approved, Error, MAX_MCP_DEFINITION_BYTES, MAX_MCP_NAME_BYTES, MAX_MCP_SERVERS_PER_APP,
    MAX_MCP_TOOLS_PER_SERVER, McpOffer, McpToolRow,
};

use crate::actions::refusal;
use crate::support::{Fixture, Forward, Published, after, open};

fn app() -> AppId {
    AppId::new("app")
}

fn definition(tool: &str, version: u32) -> Value {
    json!({ "name": tool, "description": format!("version {version}"), "inputSchema": { "z": 1, "a": 2 } })
}

fn hash(version: u32) -> String {
    format!("h{version}")
}

fn offer(tool: &str, version: u32) -> McpOffer {
    McpOffer { tool: tool.into(), definition: definition(tool, version), hash: hash(version) }
}

async fn put(fixture: &Fixture, offered: &[(&str, u32)]) -> Vec<McpToolRow> {
    let offered = offered.iter().map(|(tool, version)| offer(tool, *version)).collect();
    fixture.store.put_mcp_tools(&app(), "math", offered).await.unwrap()
}

async fn approve(fixture: &Fixture, wanted: &[(&str, u32)]) -> Result<Vec<McpToolRow>, Error> {
    let wanted = wanted.iter().map(|(tool, version)| ((*tool).to_owned(), hash(*version))).collect();
    fixture.store.approve_mcp_tools(&app(), "math", wanted, "olga").await
}

async fn revoke(fixture: &Fixture, tools: &[&str]) -> Result<(), Error> {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    fixture.store.revoke_mcp_tools(&app(), "math", tools, "olga").await
}

type Told<'a> = (&'a str, &'a str, Option<&'a str>, bool);

/// Each tool with the hash that is offered, the approved one and whether it is there.
fn told(rows: &[McpToolRow]) -> Vec<Told<'_>> {
    rows.iter()
        .map(|row| {
            let approved = row.approved.as_ref().map(|approved| approved.hash.as_str());
            (row.tool.as_str(), row.hash.as_str(), approved, row.present)
        })
        .collect()
}

#[tokio::test]
async fn what_a_server_is_first_seen_with_is_approved_and_nothing_after_that_is() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let first = put(&fixture, &[("sub", 1), ("add", 1)]).await;
    let row = |tool: &str| McpToolRow {
        server: "math".into(),
        tool: tool.into(),
        definition: definition(tool, 1),
        hash: hash(1),
        approved: Some(Approved { hash: hash(1), definition: definition(tool, 1), at: after(0), by: None }),
        present: true,
        seen_at: after(0),
    };
    assert_eq!(first, [row("sub"), row("add")], "in the order in which they are offered");
    let stored = fixture
        .database()
        .query_row("SELECT definition FROM mcp_tools LIMIT 1", [], |row| row.get::<_, String>(0));
    assert_eq!(
        stored.unwrap(),
        definition("add", 1).to_string(),
        "as it was said, to the order of its fields"
    );
    clock.to(5);
    let later = put(&fixture, &[("add", 2), ("sub", 1), ("mul", 1)]).await;
    let changed =
        McpToolRow { definition: definition("add", 2), hash: hash(2), seen_at: after(5), ..row("add") };
    let added = McpToolRow { approved: None, seen_at: after(5), ..row("mul") };
    assert_eq!(later[0], changed, "what was approved stays");
    assert_eq!(later[1].approved, row("sub").approved);
    assert_eq!(later[2], added);
    assert_eq!(fixture.store.mcp_tools(&app()).await.unwrap(), later);
}

#[tokio::test]
async fn what_is_gone_comes_back_approved_only_as_it_was_approved() {
    let fixture = Fixture::new();
    put(&fixture, &[("add", 1), ("sub", 1)]).await;
    let gone = put(&fixture, &[("sub", 1)]).await;
    let mut told_gone = told(&gone);
    told_gone.sort_unstable();
    assert_eq!(told_gone, [("add", "h1", Some("h1"), false), ("sub", "h1", Some("h1"), true)]);
    let nothing = put(&fixture, &[]).await;
    assert!(nothing.iter().all(|row| !row.present && row.approved.is_some()));
    let back = put(&fixture, &[("add", 1), ("sub", 2), ("mul", 1)]).await;
    let expected =
        [("add", "h1", Some("h1"), true), ("sub", "h2", Some("h1"), true), ("mul", "h1", None, true)];
    assert_eq!(told(&back), expected, "a server is seen for the first time once");
}

#[tokio::test]
async fn offering_the_same_again_writes_nothing() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let tools = [("add", 1), ("sub", 1)];
    let first = put(&fixture, &tools).await;
    clock.to(5);
    let conn = fixture.database();
    let refuse =
        "CREATE TRIGGER no_write BEFORE UPDATE ON mcp_tools BEGIN SELECT RAISE(ABORT, 'written'); END";
    conn.execute_batch(refuse).unwrap();
    assert_eq!(put(&fixture, &tools).await, first);
    conn.execute_batch("DROP TRIGGER no_write").unwrap();
    let turned = put(&fixture, &[("sub", 1), ("add", 1)]).await;
    assert_eq!(told(&turned), [("sub", "h1", Some("h1"), true), ("add", "h1", Some("h1"), true)]);
}

#[tokio::test]
async fn an_approval_is_of_what_was_looked_at_and_of_all_or_none() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    put(&fixture, &[("add", 1), ("sub", 1), ("mul", 1)]).await;
    put(&fixture, &[("add", 2), ("sub", 2), ("div", 1)]).await;
    let before = fixture.store.mcp_tools(&app()).await.unwrap();
    let words = refusal(approve(&fixture, &[("add", 2), ("sub", 1), ("mul", 1), ("div", 1)]).await);
    assert_eq!(
        words, "sub, mul of math changed meanwhile; look at the definitions again",
        "another one, and one that is gone"
    );
    let unknown = approve(&fixture, &[("add", 2), ("pow", 1)]).await;
    assert!(matches!(unknown, Err(Error::NotFound("tool"))));
    assert_eq!(fixture.store.mcp_tools(&app()).await.unwrap(), before, "a refusal approves nothing");
    clock.to(7);
    let approved = approve(&fixture, &[("add", 2), ("div", 1)]).await.unwrap();
    let of = |tool: &str| approved.iter().find(|row| row.tool == tool).unwrap().approved.clone();
    let by = |tool: &str, version| {
        Some(Approved {
            hash: hash(version),
            definition: definition(tool, version),
            at: after(7),
            by: Some("olga".into()),
        })
    };
    assert_eq!((of("add"), of("div")), (by("add", 2), by("div", 1)));
    assert_eq!(of("sub").map(|approved| approved.hash), Some(hash(1)), "what was not named waits on");
    put(&fixture, &[("add", 3), ("sub", 2), ("div", 1)]).await;
    let late = approve(&fixture, &[("add", 2)]).await;
    assert_eq!(refusal(late), "add of math changed meanwhile; look at the definitions again");
}

#[tokio::test]
async fn a_revoked_tool_stays_so_whatever_its_server_offers() {
    let fixture = Fixture::new();
    put(&fixture, &[("add", 1), ("sub", 1)]).await;
    let unknown = revoke(&fixture, &["add", "pow"]).await;
    assert!(matches!(unknown, Err(Error::NotFound("tool"))));
    assert!(fixture.store.mcp_tools(&app()).await.unwrap()[0].approved.is_some(), "all or none");
    for _ in 0..2 {
        revoke(&fixture, &["add", "sub"]).await.unwrap();
    }
    for offered in [&[("add", 1), ("sub", 1)][..], &[], &[("add", 1), ("sub", 1)]] {
        let rows = put(&fixture, offered).await;
        assert!(rows.len() == 2 && rows.iter().all(|row| row.approved.is_none()));
    }
    let again = approve(&fixture, &[("add", 1)]).await.unwrap();
    assert_eq!(told(&again), [("add", "h1", Some("h1"), true), ("sub", "h1", None, true)]);
}

#[tokio::test]
async fn tools_are_of_one_server_in_one_app() {
    let fixture = Fixture::new();
    let other = AppId::new("other");
    let added = vec![offer("add", 1)];
    put(&fixture, &[("add", 1), ("sub", 1)]).await;
    assert_eq!(fixture.store.mcp_tools(&other).await.unwrap(), []);
    let elsewhere = fixture.store.put_mcp_tools(&other, "math", added.clone()).await.unwrap();
    assert_eq!(told(&elsewhere), [("add", "h1", Some("h1"), true)]);
    fixture.store.put_mcp_tools(&app(), "art", added).await.unwrap();
    fixture.store.put_mcp_tools(&app(), "math", vec![]).await.unwrap();
    fixture.store.revoke_mcp_tools(&app(), "math", vec!["add".into()], "olga").await.unwrap();
    assert_eq!(fixture.store.mcp_tools(&other).await.unwrap(), elsewhere);
    let rows = fixture.store.mcp_tools(&app()).await.unwrap();
    let servers: Vec<_> = rows.iter().map(|row| (row.server.as_str(), row.tool.as_str())).collect();
    assert_eq!(servers, [("art", "add"), ("math", "add"), ("math", "sub")]);
    assert!(rows[0].present && rows[0].approved.is_some());
    let wanted = vec![("sub".to_owned(), hash(1))];
    let foreign = fixture.store.approve_mcp_tools(&other, "math", wanted, "olga").await;
    assert!(matches!(foreign, Err(Error::NotFound("tool"))));
}

#[tokio::test]
async fn what_is_too_much_is_refused_with_all_that_came_with_it() {
    let fixture = Fixture::new();
    let before = put(&fixture, &[("add", 1)]).await;
    let frame = json!({ "d": "" }).to_string().len();
    let sized =
        |bytes: usize| McpOffer { definition: json!({ "d": "x".repeat(bytes - frame) }), ..offer("big", 1) };
    let many = |count: usize| (0..count).map(|number| offer(&format!("t{number:04}"), 1)).collect::<Vec<_>>();
    let bad = [
        (vec![offer("new", 1), sized(MAX_MCP_DEFINITION_BYTES + 1)], "has more than 65536 bytes"),
        (many(MAX_MCP_TOOLS_PER_SERVER + 1), "more than 512 tools"),
        (vec![offer("new", 1), offer("new", 2)], "math offers new twice"),
        (vec![offer("new", 1), offer("", 1)], "have 1 to 256 bytes"),
        (vec![offer(&"n".repeat(MAX_MCP_NAME_BYTES + 1), 1)], "have 1 to 256 bytes"),
    ];
    for (offered, reason) in bad {
        let words = refusal(fixture.store.put_mcp_tools(&app(), "math", offered).await);
        assert!(words.contains(reason), "{words}: expected {reason}");
    }
    assert_eq!(fixture.store.mcp_tools(&app()).await.unwrap(), before);
    let most = [sized(MAX_MCP_DEFINITION_BYTES), offer(&"n".repeat(MAX_MCP_NAME_BYTES), 1)];
    let offered = most.into_iter().chain(many(MAX_MCP_TOOLS_PER_SERVER - 2)).collect();
    let rows = fixture.store.put_mcp_tools(&app(), "math", offered).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.present).count(), MAX_MCP_TOOLS_PER_SERVER);
    assert_eq!(rows.len(), MAX_MCP_TOOLS_PER_SERVER, "there was no room for one that is gone");
}

#[tokio::test]
async fn a_server_that_keeps_offering_others_is_never_seen_for_the_first_time_again() {
    let fixture = Fixture::new();
    let others = |of: &str, count: usize| -> Vec<McpOffer> {
        (0..count).map(|number| offer(&format!("{of}{number}"), 1)).collect()
    };
    let offered = async |offered| fixture.store.put_mcp_tools(&app(), "math", offered).await.unwrap();
    put(&fixture, &[("kept", 1)]).await;
    let all = MAX_MCP_TOOLS_PER_SERVER;
    offered(others("a", all - 1)).await;
    let rows = offered(others("b", all - 1)).await;
    let gone: Vec<_> = rows.iter().filter(|row| !row.present).map(|row| row.tool.as_str()).collect();
    assert_eq!((rows.len(), gone), (all, vec!["kept"]), "the unapproved are forgotten first");
    let rows = offered(others("c", all)).await;
    assert!(rows.len() == all && rows.iter().all(|row| row.present && row.approved.is_none()));
    let rows = put(&fixture, &[("kept", 1)]).await;
    let kept = rows.iter().find(|row| row.present).unwrap();
    assert_eq!((kept.tool.as_str(), &kept.approved), ("kept", &None), "what was forgotten is new");
}

#[tokio::test]
async fn an_app_has_tools_of_so_many_servers() {
    let fixture = Fixture::new();
    let offered = async |server: usize| {
        fixture.store.put_mcp_tools(&app(), &format!("s{server}"), vec![offer("add", 1)]).await
    };
    for server in 0..MAX_MCP_SERVERS_PER_APP {
        offered(server).await.unwrap();
    }
    let words = refusal(offered(MAX_MCP_SERVERS_PER_APP).await);
    assert_eq!(words, "the app already has tools of 64 MCP servers");
    offered(0).await.expect("one that is known goes on");
}

#[tokio::test]
async fn a_change_that_is_cut_has_not_happened_and_one_that_was_answered_stays() {
    let fixture = Fixture::new();
    put(&fixture, &[("add", 1), ("sub", 1)]).await;
    let before = put(&fixture, &[("add", 2), ("sub", 2)]).await;
    let conn = fixture.database();
    conn.execute_batch(
        "CREATE TRIGGER cut BEFORE UPDATE ON mcp_tools WHEN NEW.tool = 'sub' BEGIN SELECT RAISE(ABORT, 'cut'); END",
    )
    .unwrap();
    let offered = vec![offer("add", 3), offer("sub", 3)];
    fixture.store.put_mcp_tools(&app(), "math", offered).await.unwrap_err();
    approve(&fixture, &[("add", 2), ("sub", 2)]).await.unwrap_err();
    revoke(&fixture, &["add", "sub"]).await.unwrap_err();
    assert_eq!(fixture.store.mcp_tools(&app()).await.unwrap(), before);
    conn.execute_batch("DROP TRIGGER cut").unwrap();
    let approved = approve(&fixture, &[("add", 2), ("sub", 2)]).await.unwrap();
    let Fixture { store, folder, .. } = fixture;
    drop(store);
    let again = open(folder.path(), Arc::new(Published::default())).unwrap();
    assert_eq!(again.mcp_tools(&app()).await.unwrap(), approved);
}
