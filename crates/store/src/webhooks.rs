//! Which apps tell which webhooks of what. The store adds a job for each message in the transaction of its event.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use protocol::{AppId, Ids, WebhookEvent};

/// The kind of jobs that deliver messages.
pub const WEBHOOK_JOB: &str = "webhook";

/// A webhook of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedWebhook {
    pub name: String,
    pub events: Vec<WebhookEvent>,
}

/// The webhooks of all apps that have one.
#[derive(Clone)]
pub struct WatchedApps {
    pub webhooks: HashMap<AppId, Vec<WatchedWebhook>>,
    /// Names the jobs.
    pub ids: Arc<dyn Ids>,
}

/// A message that a job delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookMessageRow {
    /// The name of the webhook in its app.
    pub webhook: String,
    pub body: String,
}

/// The webhooks of now. Locked for a look, never over an await.
#[derive(Default)]
pub(crate) struct WebhookWatch(RwLock<Option<Arc<WatchedApps>>>);

impl WebhookWatch {
    /// None if no app has a webhook.
    pub(crate) fn now(&self) -> Option<Arc<WatchedApps>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, watched: WatchedApps) {
        let watched = Some(watched).filter(|watched| !watched.webhooks.is_empty()).map(Arc::new);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = watched;
    }
}
