//! Jobs as admins ask for them.

use std::cmp::Reverse;

use protocol::{AppId, JobId, JobView, Page, Principal};
use store::{JobRow, PageOf, PageRows, TimeCursor};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

impl Service {
    /// The jobs of all users, newest first, for an admin: in the apps that the admin's key is limited to, or in all
    /// apps.
    pub async fn job_views(&self, page: PageQuery, by: Option<&Principal>) -> Result<Page<JobView>, Error> {
        let wanted = page.by_time()?;
        let page = match by.and_then(Principal::apps) {
            Some(apps) => self.jobs_of_apps(apps, wanted).await?,
            None => self.store().jobs(wanted).await?,
        };
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), views::job))
    }

    /// The newest jobs of several apps, out of the newest of each.
    async fn jobs_of_apps(
        &self,
        apps: &[AppId],
        wanted: PageOf<TimeCursor<JobId>>,
    ) -> Result<PageRows<JobRow>, Error> {
        let mut all = PageRows { rows: Vec::new(), more: false };
        for app in apps {
            let page = self.store().jobs_of_app(app, wanted).await?;
            all.rows.extend(page.rows);
            all.more |= page.more;
        }
        all.rows.sort_by_key(|row| Reverse((row.created_at, row.id)));
        all.more |= all.rows.len() > wanted.limit;
        all.rows.truncate(wanted.limit);
        Ok(all)
    }
}
