//! The delivery of one message to a webhook of an app. The message was stored with the event that it tells of.

use async_trait::async_trait;
use store::{JobRow, WEBHOOK_JOB};
use tools::{WebhookMessage, deliver_webhook};

use super::{BackgroundJob, JobEffect, UnfinishedJob};
use crate::world::World;

/// Sends a message until the receiver has taken it.
pub(crate) struct DeliverWebhook;

impl DeliverWebhook {
    pub(crate) const NAME: &str = WEBHOOK_JOB;
}

#[async_trait]
impl BackgroundJob for DeliverWebhook {
    async fn run(&self, world: &World, job: &JobRow) -> Result<JobEffect, UnfinishedJob> {
        let message = world.store.webhook_message(job.id).await?;
        let Some(message) = message else { return Ok(JobEffect::Nothing) };
        let served = world.apps.get(&job.scope.app);
        let webhook = served.as_ref().and_then(|served| {
            served.app.webhooks.iter().find(|webhook| webhook.name.name == message.webhook)
        });
        // The app has this webhook no longer, so the message is dropped.
        let Some(webhook) = webhook else { return Ok(JobEffect::Nothing) };
        let access = world.catalog.external_access();
        let access =
            access.ok_or_else(|| UnfinishedJob::from("the server has no egress for webhooks".to_owned()))?;
        let message = WebhookMessage {
            url: &webhook.url,
            secret: &webhook.secret,
            id: job.id.to_string(),
            sent_at: world.now(),
            body: message.body,
        };
        match deliver_webhook(access, message).await {
            Ok(()) => Ok(JobEffect::Nothing),
            Err(undelivered) => {
                let is_final = undelivered.is_final;
                Err(UnfinishedJob { is_final, ..undelivered.reason.into() })
            }
        }
    }
}
