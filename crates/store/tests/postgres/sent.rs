//! Messages, and what their senders were told: a fault must not make a lie of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use protocol::{Ids as _, RunId};
use store::inspection::number_of;
use store::postgres::{PostgresAddress, audit};
use store::{Error, Target};
use testkit::still::CountingIds;
use testpg::{PACKAGE_VARIABLE, PostgresPrograms};

use crate::support::{Fixture, Published};
use crate::{found_again, open};

/// How long anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Messages that are sent at the same time, so that some of them share a commit.
const TOGETHER: usize = 3;

/// The programs of PostgreSQL, for a test that starts servers.
#[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
pub(crate) fn programs() -> PostgresPrograms {
    PostgresPrograms::of_variable(std::env::var_os(PACKAGE_VARIABLE)).unwrap()
}

/// A store, and the messages that were sent to it.
pub(crate) struct SentMessages {
    pub(crate) fixture: Fixture,
    pub(crate) kept: Vec<RunId>,
    pub(crate) refused: Vec<RunId>,
}

impl SentMessages {
    pub(crate) fn to(address: &PostgresAddress) -> Self {
        let (store, published) = (open(address), Arc::<Published>::default());
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture { store, published, ids: CountingIds::default(), folder };
        Self { fixture, kept: vec![], refused: vec![] }
    }

    /// Sends a few messages at the same time. Gives the refusals, each of which may pass.
    pub(crate) async fn send(&mut self) -> Vec<Error> {
        let refusals = self.try_send().await;
        for refusal in &refusals {
            assert!(refusal.may_pass(), "{refusal}");
        }
        refusals
    }

    /// Sends a few messages at the same time. Gives the refusals.
    pub(crate) async fn try_send(&mut self) -> Vec<Error> {
        let Fixture { store, ids, .. } = &self.fixture;
        let sending = (0..TOGETHER).map(|_| async {
            let submission = self.fixture.submission(Target::New(ids.thread()));
            (submission.run, store.submit(submission).await)
        });
        let mut refusals = vec![];
        for (run, told) in join_all(sending).await {
            match told {
                Ok(_) => self.kept.push(run),
                Err(error) => {
                    self.refused.push(run);
                    refusals.push(error);
                }
            }
        }
        refusals
    }

    /// Sends messages while something happens, and until `more` others are kept.
    pub(crate) async fn send_during<R: Send + 'static>(
        &mut self,
        more: usize,
        happens: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let happening = tokio::task::spawn_blocking(happens);
        while !happening.is_finished() {
            self.send().await;
            tokio::task::yield_now().await;
        }
        let happened = happening.await.unwrap();
        self.send_until_kept(more).await;
        happened
    }

    /// Sends messages as clients do that try again, until `more` others are kept.
    pub(crate) async fn send_until_kept(&mut self, more: usize) {
        let enough = self.kept.len() + more;
        let sending = async {
            while self.kept.len() < enough {
                self.send().await;
            }
        };
        tokio::time::timeout(PATIENCE, sending).await.expect("messages are kept again");
    }

    /// Each message is there once if its sender was told so, and is not there if the sender was told to try again.
    pub(crate) async fn check(&self, address: &PostgresAddress) {
        println!("{} messages kept, {} refused", self.kept.len(), self.refused.len());
        for run in &self.kept {
            found_again(&self.fixture.store, *run).await.unwrap();
        }
        for run in &self.refused {
            let found = found_again(&self.fixture.store, *run).await;
            assert!(matches!(found, Err(Error::NotFound(_))), "{run}");
        }
        for table in ["runs", "messages"] {
            let rows = number_of(address, &format!("SELECT count(*) FROM {table}")).unwrap();
            assert_eq!(rows, i64::try_from(self.kept.len()).unwrap(), "{table}");
        }
        assert_eq!(audit(address).unwrap().findings, [""; 0]);
    }
}
