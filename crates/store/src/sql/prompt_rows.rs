//! All that a prompt reads of its thread and its user, in one look at the database.

use protocol::{MessageId, Scope, ThreadId};

use super::{RowsOf, SqlStore, history, memories, pins, profiles, recall, summaries};
use crate::{Error, PromptRows};

impl SqlStore {
    pub(crate) async fn prompt_rows(
        &self,
        scope: &Scope,
        everywhere: &Scope,
        (thread, leaf): (ThreadId, MessageId),
        newest: usize,
    ) -> Result<PromptRows, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, everywhere) = (scope.clone(), everywhere.clone());
        let all = move |conn: &super::SqlConnection| {
            // All reads see one moment of the database; dropping the transaction ends it.
            let _moment = conn.moment()?;
            let profile = |of| profiles::find(conn, of);
            let rows = PromptRows {
                newest: history::path(conn, thread, leaf, newest),
                summaries: summaries::list(conn, thread, false),
                pins: pins::all(conn, &scope, Some(thread)),
                profiles: profile(&everywhere).and_then(|everywhere| Ok((everywhere, profile(&scope)?))),
                memory_is_off: memories::is_off(conn, &scope),
                hidden: recall::hidden_words(conn, &scope),
            };
            // Rows that cannot be read are left out of a prompt. Rows behind a lost connection can be read later.
            if conn.is_usable() {
                Ok(rows)
            } else {
                Err(Error::Disconnected("the connection was lost between two reads".to_owned()))
            }
        };
        self.readers.read_for(rows, all).await
    }
}
