//! The database itself keeps the rows of users apart.

use protocol::Ids as _;
use store::Target;
use store::inspection::{execute, number_of};
use store::postgres::PostgresAddress;

use crate::support::{Fixture, scope};
use crate::{address, open};

/// Tables whose rows belong to no user, or are found only through a table that is guarded.
const UNGUARDED: &str =
    "'admin_audit', 'app_revisions', 'commits', 'delta_log_0', 'delta_log_1', 'mcp_tools', 'missing_apps', 'nodes', 'records_text',
    'schema_version', 'secrets', 'sqlite_sequence', 'state', 'webhook_messages'";

/// Returns the address of the tables as a session sees them that works for a user.
fn as_seen_by(user: &str, schema: &str) -> PostgresAddress {
    format!("{} options='-c rondo.user={user}'?schema={schema}", address()).parse().unwrap()
}

#[tokio::test]
async fn a_session_that_works_for_a_user_sees_and_changes_rows_of_this_user_alone() {
    let fixture = Fixture::new();
    let schema = format!("policies_{}", std::process::id());
    let all: PostgresAddress = format!("{}?schema={schema}", address()).parse().unwrap();
    let store = open(&all);
    for user in ["alice", "alice", "bob"] {
        let mut submission = fixture.submission(Target::New(fixture.ids.thread()));
        submission.scope = scope(user);
        store.submit(submission).await.unwrap();
    }
    let count = |seen: &PostgresAddress, table: &str| {
        number_of(seen, &format!("SELECT count(*) FROM {table}")).unwrap()
    };
    let (alice, bob, carol) =
        (as_seen_by("alice", &schema), as_seen_by("bob", &schema), as_seen_by("carol", &schema));
    for table in ["threads", "runs", "messages", "notices"] {
        let seen = [&all, &alice, &bob, &carol].map(|seen| count(seen, table));
        assert!(seen[0] == seen[1] + seen[2] && seen[1] == 2 * seen[2] && seen[3] == 0, "{table}: {seen:?}");
    }
    assert_eq!(count(&all, "events"), count(&alice, "events") + count(&bob, "events"));
    assert_eq!(execute(&bob, "UPDATE threads SET title = 'mine'").unwrap(), 1);
    assert_eq!(execute(&carol, "DELETE FROM events").unwrap(), 0);
    let refused =
        execute(&bob, "INSERT INTO memory_off (app, \"user\") VALUES ('app', 'alice')").unwrap_err();
    assert!(refused.to_string().contains("row-level security policy"), "{refused}");
    let open_tables = format!(
        "SELECT count(*) FROM pg_class c WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r'
            AND NOT (c.relrowsecurity AND c.relforcerowsecurity) AND c.relname NOT IN ({UNGUARDED})"
    );
    assert_eq!(number_of(&all, &open_tables).unwrap(), 0, "a new table needs a policy");
}
