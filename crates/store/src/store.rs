//! The store: every method is one transaction of the back end that was chosen at the start.
//!
//! A method is one line of [`store_methods`] here and a method of the same name in the back end's folder. A second back end
//! adds an arm to the macro, and the compiler then names every method that it lacks.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::{Clock, RunId, Seq, Stored, ThreadId};

use crate::sqlite::{Sqlite, SqliteOptions};
use crate::{Error, EventLog, Publish, RawEvent};

/// Declares methods of [`Store`] that the back end answers.
macro_rules! store_methods {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $returned:ty;)*) => {
        impl Store {
            $($(#[$doc])*
            pub async fn $name(&self, $($arg: $type),*) -> Result<$returned, Error> {
                match &self.backend {
                    Backend::Sqlite(sqlite) => sqlite.$name($($arg),*).await,
                }
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
    backend: Backend,
}

/// The database behind a store.
#[derive(Clone)]
enum Backend {
    Sqlite(Arc<Sqlite>),
}

impl Store {
    /// Opens or creates the SQLite database of a folder, bringing its schema up to date. A second process on the same
    /// folder is refused.
    pub fn open_sqlite(
        folder: &Path,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
    ) -> Result<Self, Error> {
        Self::open_sqlite_with(folder, clock, publish, SqliteOptions::default())
    }

    /// Opens a SQLite store that differs from the usual one.
    pub fn open_sqlite_with(
        folder: &Path,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
        options: SqliteOptions,
    ) -> Result<Self, Error> {
        let sqlite = Arc::new(Sqlite::open_with(folder, clock, publish, options)?);
        Ok(Self { backend: Backend::Sqlite(sqlite) })
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
