//! Several requests that share a commit, some of which are refused.

use std::pin::pin;

use futures_util::future::join_all;
use protocol::{AppId, Ids as _};
use serde_json::json;
use store::{Store, Write};

use super::generator::{ComparedPlan, shown};
use super::two_stores::CommitGate;

/// One of the requests that are made at the same moment.
#[derive(Debug, Clone)]
enum SharedRequest {
    Submit(Box<store::Submission>),
    Record(protocol::Scope, Write),
    File(protocol::Scope, Write),
    Remember(protocol::Scope, store::NewMemoryRow),
}

impl SharedRequest {
    fn draw(plan: &mut ComparedPlan) -> Self {
        let scope = plan.scope();
        match plan.random.u32(..4) {
            0 => SharedRequest::Submit(Box::new(plan.submission())),
            1 => {
                let (id, expected) = (plan.ids.record(), plan.random.u64(..2));
                let data = Some(json!({ "title": plan.text() }));
                SharedRequest::Record(scope, Write::Record { id, kind: "note".into(), data, expected })
            }
            2 => {
                let (path, content, expected) =
                    (plan.name(), Some(plan.countable_text()), plan.random.u64(..2));
                SharedRequest::File(scope, Write::File { path, content, expected })
            }
            _ => SharedRequest::Remember(scope, plan.new_memory("user")),
        }
    }

    async fn send(self, store: &Store) -> String {
        match self {
            SharedRequest::Submit(submission) => shown(&store.submit(*submission).await),
            SharedRequest::Record(scope, write) => shown(&store.put_record(&scope, write, None).await),
            SharedRequest::File(scope, write) => shown(&store.put_file(&scope, write, None).await),
            SharedRequest::Remember(scope, memory) => shown(&store.add_memory(&scope, memory, None).await),
        }
    }
}

/// Sends the requests while the writer is at a commit, so that they share the next one.
async fn sent_together(store: &Store, gate: &CommitGate, requests: &[SharedRequest]) -> Vec<String> {
    let nobody = AppId::new("nobody");
    gate.close();
    let mut first = pin!(store.note_found(&nobody));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    gate.wait_for_writer();
    let mut others = pin!(join_all(requests.iter().map(|request| request.clone().send(store))));
    assert!(futures_util::poll!(others.as_mut()).is_pending());
    gate.open();
    first.await.unwrap();
    others.await
}

pub(super) async fn play(plan: &mut ComparedPlan) {
    let requests: Vec<SharedRequest> =
        (0..plan.random.usize(2..8)).map(|_| SharedRequest::draw(plan)).collect();
    plan.note("together", format!("{requests:?}"));
    let (file, server) = plan.stores();
    let [of_file, of_server] = plan.stores.gates.clone();
    let one = sent_together(&file, &of_file, &requests).await;
    let other = sent_together(&server, &of_server, &requests).await;
    plan.compare(Ok(one), Ok(other));
    for request in requests {
        match request {
            SharedRequest::Submit(sent) => {
                plan.learn_submission(&sent.scope, sent.thread.id(), &sent.request.ask, sent.run);
            }
            SharedRequest::Record(scope, Write::Record { id, .. }) => {
                plan.known.records.push((scope, ("note", id)));
            }
            SharedRequest::Remember(scope, memory) => plan.known.memories.push((scope, memory.id)),
            SharedRequest::Record(..) | SharedRequest::File(..) => {}
        }
    }
}
