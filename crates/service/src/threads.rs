//! Threads as clients ask for them: created, listed, shown, changed and deleted.

use protocol::{NewThread, Page, Principal, ThreadChange, ThreadId, ThreadView};
use store::{Once, ThreadEdit};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

impl Service {
    pub async fn create_thread(
        &self,
        principal: &Principal,
        app: &str,
        new: NewThread,
        once: Option<Once>,
    ) -> Result<ThreadView, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let title = new.title.as_deref().map(checks::title).transpose()?;
        let persona = new.persona_id.map(checks::persona).transpose()?;
        let thread = store::NewThreadRow { id: self.world().ids.thread(), title, persona };
        Ok(views::thread(self.store().create_thread(&scope, thread, once).await?))
    }

    pub async fn threads(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<ThreadView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let page = self.store().threads(&scope, page.by_time()?).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.updated_at, row.id), views::thread))
    }

    pub async fn thread(&self, principal: &Principal, thread: ThreadId) -> Result<ThreadView, Error> {
        Ok(views::thread(agent::thread_row(self.store(), principal, thread).await?))
    }

    pub async fn change_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        change: ThreadChange,
        once: Option<Once>,
    ) -> Result<ThreadView, Error> {
        let title = change.title.as_deref().map(checks::title).transpose()?;
        let persona =
            change.persona_id.map(|persona| persona.map(checks::persona).transpose()).transpose()?;
        if title.is_none() && persona.is_none() {
            return Err(Error::invalid("title", "is required, unless `personaId` is given"));
        }
        agent::thread_row(self.store(), principal, thread).await?;
        let change = ThreadEdit { title, persona };
        Ok(views::thread(self.store().change_thread(principal, thread, change, once).await?))
    }

    /// Hides the thread at once and cancels its run; its rows go in the background.
    pub async fn delete_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        once: Option<Once>,
    ) -> Result<(), Error> {
        if let Ok(row) = self.store().thread(principal, thread).await
            && !principal.may_use(&row.scope.app)
        {
            return Err(Error::NotFound { what: "thread" });
        }
        self.agent.delete_thread(principal, thread, once).await
    }
}
