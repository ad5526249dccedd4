//! Jobs as admins ask for them.

use protocol::{JobView, Page, Principal};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

impl Service {
    /// Work in the background, newest first, of all users: for whoever looks after the server, in the app of their key.
    pub async fn job_views(&self, page: PageQuery, by: Option<&Principal>) -> Result<Page<JobView>, Error> {
        let wanted = page.by_time()?;
        let page = match by.and_then(Principal::only_app) {
            Some(app) => self.store().jobs_of_app(app, wanted).await?,
            None => self.store().jobs(wanted).await?,
        };
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), views::job))
    }
}
