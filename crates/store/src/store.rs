//! The store: every method is one transaction of the back end that was chosen at the start.
//!
//! A method is one line of [`store_methods`] here and a method of the same name in `sql`.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::{Clock, RunId, Seq, Stored, ThreadId};

use crate::postgres::{self, PostgresAddress};
use crate::sql::{SqlStore, StoreOptions};
use crate::sqlite;
use crate::{Error, EventLog, Publish, RawEvent};

/// Declares methods of [`Store`] that the back end answers.
macro_rules! store_methods {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $returned:ty;)*) => {
        impl Store {
            $($(#[$doc])*
            pub async fn $name(&self, $($arg: $type),*) -> Result<$returned, Error> {
                self.database.$name($($arg),*).await
            })*
        }
    };
}

mod actions;
mod context;
mod conversations;
mod memories;
mod server;

/// A handle on the stored data. Clones share one back end, which closes with the last of them.
#[derive(Clone)]
pub struct Store {
    database: Arc<SqlStore>,
}

impl Store {
    /// Opens or creates the SQLite database of a folder, bringing its schema up to date. A second process on the same
    /// folder is refused.
    pub fn open_sqlite(
        folder: &Path,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
        options: StoreOptions,
    ) -> Result<Self, Error> {
        Ok(Self { database: Arc::new(sqlite::open_with(folder, clock, publish, options)?) })
    }

    /// Opens the PostgreSQL database at an address, bringing its schema up to date. Without [`StoreOptions::shared`], a
    /// second process on the database is refused. With it, this process joins as a node (ADR 32). The call blocks.
    pub fn open_postgres(
        address: &PostgresAddress,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
        options: StoreOptions,
    ) -> Result<Self, Error> {
        Ok(Self { database: Arc::new(postgres::open_with(address, clock, publish, options)?) })
    }
}

#[async_trait]
impl EventLog for Store {
    async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, Error> {
        Store::events(self, thread, run, after).await
    }

    async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, Error> {
        Store::facts(self, run).await
    }
}
