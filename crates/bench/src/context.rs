//! The cost of a run in a short, a long and a very long thread: from the message to the model, and in tokens.
//!
//! One conversation grows to ten thousand messages, run by run, with the summaries it causes. At each size a few runs are
//! measured: the time from submitting the message to the moment the model is asked (commit, every read, choosing, writing
//! the prompt), the processor's time of the whole run, and the tokens of the prompt.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use model::{AnswerPiece, ChatModel, ModelRequest, PieceStream, PromptMessage};
use protocol::{Finish, NewRun, Principal, PromptLedger, ThreadId, UserId};
use service::{AcceptedRun, Service};
use store::Coalesce;

use crate::{cpu, world};

const SIZES: [usize; 3] = [10, 200, 10_000];

/// Runs that are measured at each size.
const MEASURED: usize = 30;

/// The words of each message, by people and the model: about forty words.
const WORDS: &str = "The clinic called about the appointment on Tuesday at ten and asked whether the new tablets are \
    taken with breakfast; I said yes, because the nurse told us so last week, and wrote the dose into the plan.";

/// Answers at once, and notes when it was asked.
#[derive(Default)]
struct Listener {
    asked: Mutex<Option<Instant>>,
}

impl ChatModel for Listener {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, model::Error>> {
        // A job that summarises asks something else.
        if matches!(request.messages.last(), Some(PromptMessage::User(said)) if said.text == WORDS) {
            *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        let pieces = [Ok(AnswerPiece::Text(WORDS.to_owned())), Ok(AnswerPiece::Finish(Finish::Stop))];
        let stream: PieceStream = Box::pin(stream::iter(pieces));
        async { Ok(stream) }.boxed()
    }
}

/// One run.
struct ContextCost {
    to_model: Duration,
    cpu: Duration,
    ledger: PromptLedger,
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let listener = Arc::new(Listener::default());
    let service = world::service(folder.path(), listener.clone(), Coalesce::Waiting)?;
    service.start().await?;
    let user = Principal::authenticated(UserId::new("bench"));
    let (mut thread, mut said) = (None, 0);
    let mut report = String::from(
        "messages   to model ms   p95 ms   CPU ms/run   prompt tokens   history tokens   summaries\n",
    );
    for size in SIZES {
        while said + 2 * MEASURED < size {
            thread = Some(run_once(&service, &user, &listener, thread).await?.0.thread);
            said += 2;
        }
        let mut costs = Vec::with_capacity(MEASURED);
        let runs = MEASURED.min(size / 2);
        for _ in 0..runs {
            let (submitted, to_model, cpu) = run_once(&service, &user, &listener, thread).await?;
            thread = Some(submitted.thread);
            said += 2;
            let ledger = service.prompt(&user, submitted.run, None).await?.ledger;
            costs.push(ContextCost { to_model, cpu, ledger });
        }
        service.idle().await;
        let summaries = service
            .summaries(&user, thread.ok_or("no thread")?, false, service::PageQuery::default())
            .await?
            .data
            .len();
        report.push_str(&line(said, &mut costs, summaries)?);
    }
    Ok(report)
}

fn line(said: usize, costs: &mut [ContextCost], summaries: usize) -> Result<String, Box<dyn Error>> {
    costs.sort_by_key(|cost| cost.to_model);
    let middle = costs.get(costs.len() / 2).ok_or("nothing was measured")?;
    let slow = costs.get(costs.len() * 95 / 100).ok_or("nothing was measured")?;
    let cpu: Duration = costs.iter().map(|cost| cost.cpu).sum::<Duration>() / u32::try_from(costs.len())?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let history = middle.ledger.fragments.iter().find(|cost| cost.fragment == "history");
    Ok(format!(
        "{said:>8} {:>13.2} {:>8.2} {:>12.2} {:>15} {:>16} {summaries:>11}\n",
        millis(middle.to_model),
        millis(slow.to_model),
        millis(cpu),
        middle.ledger.tokens,
        history.map_or(0, |cost| cost.tokens),
    ))
}

async fn run_once(
    service: &Service,
    user: &Principal,
    listener: &Listener,
    thread: Option<ThreadId>,
) -> Result<(AcceptedRun, Duration, Duration), Box<dyn Error>> {
    let (begun, cpu) = (Instant::now(), cpu::cpu_time()?);
    let new = NewRun { message: Some(WORDS.into()), thread_id: thread, ..NewRun::default() };
    let submitted = service.submit(user, "talk", new, None).await?;
    service.result(user, submitted.run).await?;
    let spent = cpu::cpu_time()?.saturating_sub(cpu);
    let asked = *listener.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let to_model = asked.ok_or("the model was not asked")?.saturating_duration_since(begun);
    Ok((submitted, to_model, spent))
}
