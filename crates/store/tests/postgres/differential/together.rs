//! Several requests that share a commit, some of which are refused.

use futures_util::future::join_all;
use protocol::Ids as _;
use serde_json::json;
use store::{Error, Store, Write};

use super::generator::ComparedPlan;

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
                let (path, content, expected) = (plan.name(), Some(plan.text()), plan.random.u64(..2));
                SharedRequest::File(scope, Write::File { path, content, expected })
            }
            _ => SharedRequest::Remember(scope, plan.new_memory("user")),
        }
    }

    async fn send(self, store: &Store) -> String {
        fn shown<T: std::fmt::Debug>(answer: &Result<T, Error>) -> String {
            match answer {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => format!("refused: {error}"),
            }
        }
        match self {
            SharedRequest::Submit(submission) => shown(&store.submit(*submission).await),
            SharedRequest::Record(scope, write) => shown(&store.put_record(&scope, write, None).await),
            SharedRequest::File(scope, write) => shown(&store.put_file(&scope, write, None).await),
            SharedRequest::Remember(scope, memory) => shown(&store.add_memory(&scope, memory, None).await),
        }
    }
}

/// The writer takes them in the order in which they were sent, whichever of them share a commit.
pub(super) async fn play(plan: &mut ComparedPlan) {
    let requests: Vec<SharedRequest> =
        (0..plan.random.usize(2..8)).map(|_| SharedRequest::draw(plan)).collect();
    plan.note("together", format!("{requests:?}"));
    let (file, server) = plan.stores();
    let one = join_all(requests.iter().map(|request| request.clone().send(&file))).await;
    let other = join_all(requests.iter().map(|request| request.clone().send(&server))).await;
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
