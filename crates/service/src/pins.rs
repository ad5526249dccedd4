//! Pins as the outside asks for them: what the user marked as important, in one thread or in all of an app.

use agent::most_pin_tokens;
use model::Counter;
use protocol::{NewPin, Page, PinId, PinView, Principal, Scope, ThreadId};
use store::{IdempotencyClaim, MAX_PIN_BYTES};

use crate::checks::{self, PageQuery};
use crate::{Error, Service};

impl Service {
    /// For one thread. From the next run on it is part of the prompt.
    pub async fn pin_in_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        new: NewPin,
        once: Option<IdempotencyClaim>,
    ) -> Result<PinView, Error> {
        let scope = agent::thread_row(self.store(), principal, thread).await?.scope;
        self.add_pin(&scope, Some(thread), new, once).await
    }

    /// For all of the user's threads in an app.
    pub async fn pin_in_app(
        &self,
        principal: &Principal,
        app: &str,
        new: NewPin,
        once: Option<IdempotencyClaim>,
    ) -> Result<PinView, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        self.add_pin(&scope, None, new, once).await
    }

    /// The thread's and those of all threads, oldest first.
    pub async fn pins_of_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        page: PageQuery,
    ) -> Result<Page<PinView>, Error> {
        let scope = agent::thread_row(self.store(), principal, thread).await?.scope;
        self.pins(&scope, Some(thread), &page).await
    }

    /// Pins of all threads, oldest first.
    pub async fn pins_of_app(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<PinView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        self.pins(&scope, None, &page).await
    }

    pub async fn unpin(
        &self,
        principal: &Principal,
        pin: PinId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        self.store().delete_pin(principal, pin, once).await?;
        self.world().sweeper.sweep(); // it is gone from every file, not from the list alone
        Ok(())
    }

    async fn add_pin(
        &self,
        scope: &Scope,
        thread: Option<ThreadId>,
        new: NewPin,
        once: Option<IdempotencyClaim>,
    ) -> Result<PinView, Error> {
        let text = checks::text_to_keep(&new.text, MAX_PIN_BYTES, "is empty; say what is important")?;
        self.refuse_unshowable(scope, &text)?;
        let pin = store::NewPinRow { id: self.world().ids.pin(), thread, text };
        match self.store().add_pin(scope, pin, once).await {
            // Its text is in order: there is no room.
            Err(store::Error::Changed(message)) => Err(Error::Conflict { code: "pins_full", message }),
            made => Ok(made?),
        }
    }

    /// Refuses what no prompt of the app could ever show.
    fn refuse_unshowable(&self, scope: &Scope, text: &str) -> Result<(), Error> {
        let Some(app) = self.world().app(&scope.app) else { return Ok(()) };
        let models = self.world().models_for(&app, None);
        let most = most_pin_tokens(&app, &models);
        let tokens =
            models.first().map_or_else(|| Counter::default().text(text), |model| model.tokens().text(text));
        if tokens <= most {
            return Ok(());
        }
        let message = format!(
            "is too long: it has {tokens} tokens, and a prompt has {most} tokens for pins; pin only the \
             important part"
        );
        Err(Error::invalid("text", message))
    }

    async fn pins(
        &self,
        scope: &Scope,
        thread: Option<ThreadId>,
        page: &PageQuery,
    ) -> Result<Page<PinView>, Error> {
        let asked = page.of_short_list()?;
        Ok(checks::short_page(self.store().pin_page(scope, thread, asked).await?, asked, |pin| pin))
    }
}
