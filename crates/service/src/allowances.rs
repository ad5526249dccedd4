//! How much one user may still do in an app.

use protocol::{Allowance, Principal};

use crate::{Error, Service};

impl Service {
    /// The rest of each limit that is left to the user and that the app has; nothing for an app without limits.
    pub async fn allowances(&self, principal: &Principal, app: &str) -> Result<Vec<Allowance>, Error> {
        let serving = self.serving(principal, app)?;
        let app = &serving.app;
        if app.user_limits.is_none() {
            return Ok(Vec::new());
        }
        let (scope, now) = (principal.scope(app.id.clone()), self.now());
        let used = self.store().used(&scope, app.user_limits, now).await?;
        Ok(app.user_limits.allowances(&used, now))
    }
}
