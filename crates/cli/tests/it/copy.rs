//! `rondo copy` without a PostgreSQL: what cannot be a source or a target is refused, and nothing is made.

use crate::world::World;

#[tokio::test]
async fn a_copy_needs_a_source_with_data_and_another_kind_of_target() {
    let world = World::new().await;
    for (arguments, told) in [
        (&["copy", "--to", "elsewhere"][..], "use `rondo backup` to copy a data folder"),
        (&["copy", "--to", "http://127.0.0.1/"], "begins with postgres://"),
        (&["copy", "--to", "postgres://rondo@127.0.0.1:1/rondo"], "there is no database in"),
        (&["copy", "--to", "postgres://rondo:a?schema=b@127.0.0.1/x"], "the schema in the address"),
        (&["copy"], "--to <TARGET>"),
    ] {
        let refused = world.run(arguments).await;
        assert_ne!(refused.code, Some(0), "{arguments:?}");
        assert!(refused.errors.contains(told), "{arguments:?}: {refused:?}");
        assert!(!world.path("elsewhere").exists());
    }
}
