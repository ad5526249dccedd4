//! Threads as clients ask for them: created, listed, shown, changed and deleted.

use protocol::{AppId, NewThread, Page, Principal, ThreadChange, ThreadId, ThreadView};
use store::{IdempotencyClaim, PageRows, ThreadEdit, ThreadFilter, ThreadRow};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

/// Which threads to list. An absent field does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadQuery {
    pub archived: Option<bool>,
    pub pinned: Option<bool>,
}

impl From<ThreadQuery> for ThreadFilter {
    fn from(ThreadQuery { archived, pinned }: ThreadQuery) -> Self {
        Self { archived, pinned }
    }
}

impl Service {
    pub async fn create_thread(
        &self,
        principal: &Principal,
        app: &str,
        new: NewThread,
        once: Option<IdempotencyClaim>,
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
        query: ThreadQuery,
        page: PageQuery,
    ) -> Result<Page<ThreadView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(thread_page(self.store().threads(&scope, query.into(), page.by_time()?).await?))
    }

    /// The user's threads in all apps that the principal may use.
    pub async fn threads_of_all_apps(
        &self,
        principal: &Principal,
        query: ThreadQuery,
        page: PageQuery,
    ) -> Result<Page<ThreadView>, Error> {
        let apps = self.world().apps.all();
        let apps: Vec<AppId> = apps.keys().filter(|app| principal.may_use(app)).cloned().collect();
        let page = self.store().threads_of_apps(principal, apps, query.into(), page.by_time()?).await?;
        Ok(thread_page(page))
    }

    pub async fn thread(&self, principal: &Principal, thread: ThreadId) -> Result<ThreadView, Error> {
        Ok(views::thread(agent::thread_row(self.store(), principal, thread).await?))
    }

    pub async fn change_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        change: ThreadChange,
        once: Option<IdempotencyClaim>,
    ) -> Result<ThreadView, Error> {
        let title = change.title.as_deref().map(checks::title).transpose()?;
        let persona =
            change.persona_id.map(|persona| persona.map(checks::persona).transpose()).transpose()?;
        let ThreadChange { pinned, archived, .. } = change;
        if title.is_none() && persona.is_none() && pinned.is_none() && archived.is_none() {
            let message = "is required, unless `personaId`, `pinned` or `archived` is given";
            return Err(Error::invalid("title", message));
        }
        agent::thread_row(self.store(), principal, thread).await?;
        let change = ThreadEdit { title, persona, pinned, archived };
        Ok(views::thread(self.store().change_thread(principal, thread, change, once).await?))
    }

    /// Hides the thread at once and cancels its run; its rows go in the background.
    pub async fn delete_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        if let Ok(row) = self.store().thread(principal, thread).await
            && !principal.may_use(&row.scope.app)
        {
            return Err(Error::NotFound { what: "thread" });
        }
        self.agent.delete_thread(principal, thread, once).await
    }
}

fn thread_page(page: PageRows<ThreadRow>) -> Page<ThreadView> {
    checks::page(page, |row| checks::time_cursor(row.updated_at, row.id), views::thread)
}
