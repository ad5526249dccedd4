//! Memories as the outside asks for them: facts about the user, kept in each app by itself.

mod exchange;
mod purge;
mod search;
#[cfg(test)]
mod tests;

use agent::embed_soon;
use memory::extract::DEFAULT_KIND;
use protocol::{
    MAX_KIND_BYTES, MemoryHistoryView, MemoryId, MemoryPatch, MemorySettings, MemoryStatus, MemoryView,
    NewMemory, Page, Principal, Scope, is_kind,
};
use store::{IdempotencyClaim, MAX_MEMORY_BYTES, MemoryEdit, MemoryRow};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

pub use exchange::MAX_IMPORT_BYTES;
pub use search::MessageQuery;

/// The source of what users say themselves.
const BY_USER: &str = "user";

/// The states that a list can be narrowed to.
const STATUSES: [&str; 6] = ["active", "forgotten", "removed", "expired", "superseded", "all"];

/// The result of adding a memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Added {
    New(MemoryView),
    /// One that says the same was there.
    Known(MemoryView),
}

impl Service {
    pub async fn create_memory(
        &self,
        principal: &Principal,
        app: &str,
        new: NewMemory,
        once: Option<IdempotencyClaim>,
    ) -> Result<Added, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let (text, kind) = (memory_text(&new.text)?, kind(new.kind)?);
        self.refuse_if_off(&scope).await?;
        if let Some(known) = self.recall().duplicate(&scope, &text, self.now()).await? {
            // A change of nothing: it notes the key, and says whether that was used for something else.
            match self.store().edit_memory(principal, known, MemoryEdit::default(), once.clone()).await {
                Err(store::Error::Changed(_)) => {} // it was forgotten just now
                row => return Ok(Added::Known(views::memory(row?))),
            }
        }
        let id = self.world().ids.memory();
        let memory = store::NewMemoryRow {
            id,
            text,
            kind,
            source: BY_USER,
            sources: Vec::new(),
            valid_from: None,
            created_at: None,
        };
        let row = self.store().add_memory(&scope, memory, once).await?;
        embed_soon(self.world(), &scope).await;
        let is_new = row.id == id;
        let view = views::memory(row);
        Ok(if is_new { Added::New(view) } else { Added::Known(view) })
    }

    /// Newest first: the active ones, or those of a status, or all of them.
    pub async fn memories(
        &self,
        principal: &Principal,
        app: &str,
        status: Option<&str>,
        page: PageQuery,
    ) -> Result<Page<MemoryView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let status = match status {
            None => Some(MemoryStatus::Active),
            Some("all") => None,
            Some(name) => Some(MemoryStatus::parse(name).ok_or_else(|| {
                Error::invalid("status", format!("must be one of {}", STATUSES.join(", ")))
            })?),
        };
        let page = self.store().memories(&scope, status, page.by_time()?).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), views::memory))
    }

    pub async fn memory(&self, principal: &Principal, memory: MemoryId) -> Result<MemoryView, Error> {
        Ok(views::memory(self.memory_row(principal, memory).await?))
    }

    /// Its versions, and the words it rests on.
    pub async fn memory_history(
        &self,
        principal: &Principal,
        memory: MemoryId,
    ) -> Result<MemoryHistoryView, Error> {
        self.memory_row(principal, memory).await?;
        Ok(views::memory_history(self.store().memory_history(principal, memory).await?))
    }

    pub async fn edit_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        patch: MemoryPatch,
        once: Option<IdempotencyClaim>,
    ) -> Result<MemoryView, Error> {
        let row = self.memory_row(principal, memory).await?;
        if patch.text.is_none() && patch.kind.is_none() {
            return Err(Error::invalid("text", "is missing, and so is `kind`; send at least one of them"));
        }
        let text = patch.text.as_deref().map(memory_text).transpose()?;
        let kind = patch.kind.map(|word| kind(Some(word))).transpose()?;
        let edited = self.store().edit_memory(principal, memory, MemoryEdit { text, kind }, once).await?;
        embed_soon(self.world(), &row.scope).await;
        Ok(views::memory(edited))
    }

    /// From the next run on it is in no prompt. Forgetting twice is forgetting once.
    pub async fn forget_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        self.memory_row(principal, memory).await?;
        Ok(self.store().forget_memory(principal, memory, once).await?)
    }

    /// Removes a memory for good: what it said is in no file, but for the conversations it was said in, and there no model
    /// sees it. It cannot be restored.
    pub async fn purge_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let (service, principal) = (self.clone(), principal.clone());
        self.world().tasks.finish(async move { service.purge_words(&principal, memory, once).await }).await
    }

    pub async fn restore_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
    ) -> Result<MemoryView, Error> {
        let row = self.memory_row(principal, memory).await?;
        let restored = self.store().restore_memory(principal, memory, once).await?;
        embed_soon(self.world(), &row.scope).await;
        Ok(views::memory(restored))
    }

    pub async fn memory_settings(&self, principal: &Principal, app: &str) -> Result<MemorySettings, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(MemorySettings { enabled: !self.store().memory_is_off(&scope).await? })
    }

    /// Switches memory on or off for the user. Memories that are there stay.
    pub async fn set_memory(
        &self,
        principal: &Principal,
        app: &str,
        settings: MemorySettings,
        once: Option<IdempotencyClaim>,
    ) -> Result<MemorySettings, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        self.store().set_memory_off(&scope, !settings.enabled, once).await?;
        self.memory_settings(principal, app).await
    }

    async fn memory_row(&self, principal: &Principal, memory: MemoryId) -> Result<MemoryRow, Error> {
        let row = self.store().memory(principal, memory).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "memory" }) }
    }

    async fn refuse_if_off(&self, scope: &Scope) -> Result<(), Error> {
        if self.store().memory_is_off(scope).await? {
            let message = "memory is off for you in this app, so nothing is remembered; switch it on first";
            return Err(Error::Conflict { code: "memory_off", message: message.into() });
        }
        Ok(())
    }
}

fn memory_text(text: &str) -> Result<String, Error> {
    checks::text_to_keep(text, MAX_MEMORY_BYTES, "is empty; say what to remember")
}

fn kind(kind: Option<String>) -> Result<String, Error> {
    let Some(kind) = kind else { return Ok(DEFAULT_KIND.to_owned()) };
    if !is_kind(&kind) {
        let message = format!(
            "must be one word of 1 to {MAX_KIND_BYTES} lower-case letters, digits, - and _, or two such \
             words with a slash between them"
        );
        return Err(Error::invalid("kind", message));
    }
    Ok(kind)
}
