//! Reads the first N entries of a list, over several pages.

use protocol::{RecordView, Scope};

use crate::{ActionFilter, ActionRow, Error, PageOf, RecordQuery, Store, TimeCursor};

/// The newest actions, at most `limit`.
pub async fn newest_actions(
    store: &Store,
    scope: &Scope,
    filter: ActionFilter,
    limit: usize,
) -> Result<Vec<ActionRow>, Error> {
    let (mut all, mut more): (Vec<ActionRow>, bool) = (Vec::new(), true);
    while more && all.len() < limit {
        let page = PageOf { after: all.last().map(|row| row.position), limit: limit - all.len() };
        let next = store.actions(scope, filter.clone(), page).await?;
        more = next.more;
        all.extend(next.rows);
    }
    Ok(all)
}

/// The first records of a list, at most `limit`.
pub async fn newest_records(
    store: &Store,
    scope: &Scope,
    kind: &str,
    query: RecordQuery,
    limit: usize,
) -> Result<Vec<RecordView>, Error> {
    let (mut all, mut more): (Vec<RecordView>, bool) = (Vec::new(), true);
    while more && all.len() < limit {
        let after = all.last().map(|row| TimeCursor { at: row.updated_at, id: row.id });
        let next =
            store.records(scope, kind, query.clone(), PageOf { after, limit: limit - all.len() }).await?;
        more = next.more;
        all.extend(next.rows);
    }
    Ok(all)
}
