//! The audit of admins: who made, revoked and approved what, and when.

use protocol::{AppId, AuditEntryView, Page, Principal};

use crate::checks::{self, PageQuery};
use crate::{Error, Service};

impl Service {
    /// The entries about the apps of the admin `by`, newest first.
    pub async fn admin_audit(
        &self,
        page: PageQuery,
        by: Option<&Principal>,
    ) -> Result<Page<AuditEntryView>, Error> {
        let only = by.and_then(Principal::apps).map(<[AppId]>::to_vec);
        let page = self.store().admin_audit(only, page.by_position()?).await?;
        Ok(checks::page(page, |row| row.number.to_string(), |row| row))
    }
}
