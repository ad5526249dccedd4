//! How much one user may still do in an app.

use protocol::{Allowance, Principal, Quota};

use crate::{Engine, Error};

impl Engine {
    /// What is left to the user of each limit that the app has; nothing for an app without limits.
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

/// Why nothing more may be begun for now.
pub(crate) fn refusal(allowance: &Allowance) -> Error {
    let (limit, retry_after) = (allowance.limit, allowance.retry_after());
    let message = match allowance.quota {
        Quota::RunsMinute => {
            format!("this app answers {limit} messages of one user in a minute; wait a little")
        }
        Quota::RunsDay => {
            format!("this app answers {limit} messages of one user in a day (UTC); there are more tomorrow")
        }
        Quota::TokensMinute => {
            format!("this app spends {limit} tokens for one user in a minute; wait a little")
        }
        Quota::TokensDay => {
            format!("this app spends {limit} tokens for one user in a day (UTC); there are more tomorrow")
        }
        Quota::Running => {
            format!("{limit} of your messages are being answered; wait for an answer, or cancel one")
        }
    };
    Error::RateLimited { message, retry_after }
}
