//! The hourly job: purges what was deleted, forgets what is too old to matter, and looks for what has no vectors.

use async_trait::async_trait;
use store::JobRow;

use super::{BackgroundJob, JobEffect, UnfinishedJob, embed_all};
use crate::world::World;

/// Asks for a sweep of the store.
pub(crate) struct SweepStore;

impl SweepStore {
    pub(crate) const NAME: &str = "sweep";
}

#[async_trait]
impl BackgroundJob for SweepStore {
    async fn run(&self, world: &World, _: &JobRow) -> Result<JobEffect, UnfinishedJob> {
        embed_all(world).await;
        world.sweeper.sweep();
        Ok(JobEffect::Nothing)
    }
}
