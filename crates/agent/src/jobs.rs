//! Jobs: work in the background that is committed with its effect, one type for each kind.
//!
//! A job reads through the `World` and writes nothing by itself. It gives a [`JobEffect`], and the effect and the end of
//! the job are one transaction.

use async_trait::async_trait;
use protocol::{Event, Summary, ThreadNamed};
use store::{JobRow, JobUsage, MemoryExtraction};

use crate::world::World;

mod ask;
mod embed;
mod extract;
mod naming;
mod summarise;
mod sweep;
mod webhook;

use embed::EmbedTexts;
pub(crate) use embed::embed_all;
pub use embed::embed_soon;
use extract::ExtractMemories;
pub use extract::of_message;
pub(crate) use naming::NameThread;
pub(crate) use summarise::SummariseThread;
pub(crate) use sweep::SweepStore;
use webhook::DeliverWebhook;

/// A kind of job.
#[async_trait]
pub(crate) trait BackgroundJob: Sync {
    /// One attempt.
    async fn run(&self, world: &World, job: &JobRow) -> Result<JobEffect, UnfinishedJob>;
}

/// An entry of the list of all kinds of jobs.
pub(crate) struct JobKind {
    /// The name by which the store knows jobs of this kind.
    name: &'static str,
    /// Whether the job can do nothing without its app.
    pub(crate) needs_app: bool,
    /// The pauses between attempts.
    pub(crate) patience: Patience,
    pub(crate) job: &'static dyn BackgroundJob,
}

/// How long a kind of job is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Minutes: it waits for a model or for the store.
    Short,
    /// Days: it waits for an external system.
    Long,
}

static JOBS: [JobKind; 6] = [
    JobKind { name: NameThread::NAME, needs_app: true, patience: Patience::Short, job: &NameThread },
    JobKind {
        name: ExtractMemories::NAME,
        needs_app: true,
        patience: Patience::Short,
        job: &ExtractMemories,
    },
    JobKind {
        name: SummariseThread::NAME,
        needs_app: true,
        patience: Patience::Short,
        job: &SummariseThread,
    },
    JobKind { name: EmbedTexts::NAME, needs_app: false, patience: Patience::Short, job: &EmbedTexts },
    JobKind { name: SweepStore::NAME, needs_app: false, patience: Patience::Short, job: &SweepStore },
    JobKind { name: DeliverWebhook::NAME, needs_app: true, patience: Patience::Long, job: &DeliverWebhook },
];

/// The kind of a job.
pub(crate) fn kind_of(job: &JobRow) -> Option<&'static JobKind> {
    JOBS.iter().find(|kind| kind.name == job.kind)
}

/// The change that a job makes. It is committed with the end of the job.
#[derive(Debug)]
pub(crate) enum JobEffect {
    Nothing,
    /// Nothing, though a model was paid for it.
    Paid(Option<JobUsage>),
    ThreadName {
        title: Option<String>,
        spent: Option<JobUsage>,
    },
    Memories(MemoryExtraction),
    Summary {
        summary: Summary,
        text: String,
        spent: Option<JobUsage>,
    },
}

impl JobEffect {
    /// The price that a model was paid for it.
    pub(crate) fn usage(&self) -> Option<JobUsage> {
        match self {
            Self::Nothing => None,
            Self::Paid(spent) | Self::ThreadName { spent, .. } | Self::Summary { spent, .. } => spent.clone(),
            Self::Memories(extraction) => extraction.spent.clone(),
        }
    }

    /// Commits the effect and the end of the job.
    pub(crate) async fn commit(self, world: &World, job: &JobRow) -> Result<(), store::Error> {
        match self {
            Self::Nothing => world.store.complete(job, None, None).await,
            Self::Paid(spent) => world.store.complete(job, None, spent).await,
            Self::ThreadName { title, spent } => {
                let named = title.map(|title| Event::ThreadNamed(ThreadNamed { title }));
                world.store.complete(job, named, spent).await
            }
            Self::Summary { summary, text, spent } => {
                world.store.summarise(job, Some((summary, text)), spent).await
            }
            Self::Memories(extraction) => {
                let extracted = world.store.extract(job, extraction).await;
                embed_soon(world, &job.scope).await;
                extracted.map(drop)
            }
        }
    }
}

/// Why an attempt has come to nothing, for people, and what a model was paid for it all the same.
#[derive(Debug)]
pub(crate) struct UnfinishedJob {
    pub(crate) reason: String,
    pub(crate) spent: Option<JobUsage>,
    /// The model was not asked, because other calls hold what the user may spend. The attempt does not count.
    pub(crate) is_early: bool,
    /// Another attempt is no use.
    pub(crate) is_final: bool,
}

impl From<String> for UnfinishedJob {
    fn from(reason: String) -> Self {
        Self { reason, spent: None, is_early: false, is_final: false }
    }
}

impl From<store::Error> for UnfinishedJob {
    fn from(error: store::Error) -> Self {
        error.to_string().into()
    }
}
