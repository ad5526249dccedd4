//! The keys that are good, as this process keeps them in memory.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{OnceLock, PoisonError, RwLock};

use protocol::{AppId, KeyId};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The rights of a key's holder. Authentication makes a principal of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub user: String,
    pub app: Option<AppId>,
    pub admin: bool,
}

/// The keys that are good, by hash.
pub(crate) struct KeyRing {
    /// Locked for a look-up, never over an await.
    keys: RwLock<HashMap<[u8; 32], (KeyId, Grant)>>,
    /// Held by whoever changes the stored keys or reads them in, until this copy says the same.
    changing: Semaphore,
    /// Whether a key was ever made, revoked ones included: a server that asked for keys does not stop asking,
    /// unless somebody with the data folder removes them all.
    pub(crate) any: AtomicBool,
    /// The hash of what proves to this process that somebody may read its data folder.
    pub(crate) control: OnceLock<[u8; 32]>,
}

impl Default for KeyRing {
    fn default() -> Self {
        let (keys, any, control) = (RwLock::default(), AtomicBool::default(), OnceLock::default());
        Self { keys, changing: Semaphore::new(1), any, control }
    }
}

impl KeyRing {
    /// The turn of whoever changes the keys.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.changing.acquire().await.ok() // never closed
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&HashMap<[u8; 32], (KeyId, Grant)>) -> R) -> R {
        read(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn write<R>(&self, write: impl FnOnce(&mut HashMap<[u8; 32], (KeyId, Grant)>) -> R) -> R {
        write(&mut self.keys.write().unwrap_or_else(PoisonError::into_inner))
    }
}
