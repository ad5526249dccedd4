//! How much one user may still do in an app.

use app::App;
use protocol::{Allowance, Principal, Used, UserLimits};

use crate::{Error, Service};

impl Service {
    /// The rest of each limit that is left to the user.
    pub async fn allowances(&self, principal: &Principal, app: &str) -> Result<Vec<Allowance>, Error> {
        let serving = self.served_app(principal, app)?;
        let limits = self.user_limits(&serving.app);
        let (scope, now) = (principal.scope(serving.app.id.clone()), self.now());
        let used = self.store().used(&scope, limits, now).await?;
        Ok(limits.allowances(&used, now))
    }

    /// The rest of each limit for a user who has used so much.
    pub fn allowances_with(&self, principal: &Principal, app: &str, used: &Used) -> Vec<Allowance> {
        let serving = self.served_app(principal, app);
        serving.map(|serving| self.user_limits(&serving.app).allowances(used, self.now())).unwrap_or_default()
    }

    /// The limits of a user in an app. The number of active runs is the server's, if the app does not say.
    pub(crate) fn user_limits(&self, app: &App) -> UserLimits {
        let max_running = app.user_limits.max_running.or(Some(self.shared.max_running));
        UserLimits { max_running, ..app.user_limits }
    }
}
