//! How many text deltas a second go through the log, each committed before its subscriber sees it, and what one costs.
//!
//! A model in this process produces deltas of five characters as fast as they are taken, for many runs at once. They
//! pass through everything a real one passes but the provider's socket and the client's: the run's collector, the
//! writer, the database, the bus and a follower that folds them back into the text, which must come out whole.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt, StreamExt, stream};
use model::{AnswerPiece, ChatModel, ModelRequest, PieceStream};
use protocol::{Event, Finish, NewRun, Principal, UserId};
use service::Service;
use store::Coalesce;

use crate::{cpu, world};

const DELTA: &str = "hello";

struct Talker {
    deltas: usize,
}

impl ChatModel for Talker {
    fn stream<'a>(&'a self, _: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, model::Error>> {
        let pieces = stream::iter(0..self.deltas).map(|_| Ok(AnswerPiece::Text(DELTA.to_owned())));
        let end = stream::iter([Ok(AnswerPiece::Finish(Finish::Stop))]);
        let stream: PieceStream = Box::pin(pieces.chain(end));
        async { Ok(stream) }.boxed()
    }
}

struct Measured {
    events: usize,
    wall: Duration,
    cpu: Duration,
}

pub(crate) async fn run(options: &[String]) -> Result<String, Box<dyn Error>> {
    let runs = option(options, "--runs", 64)?;
    let deltas = option(options, "--deltas", 10_000)?;
    let mut report =
        format!("{runs} concurrent runs, {deltas} deltas of {} characters each\n\n", DELTA.len());
    report.push_str("coalescing   deltas/s   CPU µs/delta      rows\n");
    for (name, coalesce) in [("off", Coalesce::Never), ("on", Coalesce::Waiting)] {
        let measured = measure(runs, deltas, coalesce).await?;
        let total = (runs * deltas) as f64;
        let rate = total / measured.wall.as_secs_f64();
        let cost = measured.cpu.as_secs_f64() * 1e6 / total;
        report.push_str(&format!("{name:<10} {rate:>10.0} {cost:>14.2} {:>9}\n", measured.events));
    }
    Ok(report)
}

fn option(options: &[String], name: &str, default: usize) -> Result<usize, Box<dyn Error>> {
    let mut words = options.iter();
    while let Some(word) = words.next() {
        if word == name {
            return Ok(words.next().ok_or(format!("{name} needs a number"))?.parse()?);
        }
    }
    Ok(default)
}

async fn measure(runs: usize, deltas: usize, coalesce: Coalesce) -> Result<Measured, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let service = world::service(folder.path(), Arc::new(Talker { deltas }), coalesce)?;
    service.start().await?;
    let user = Principal::authenticated(UserId::new("bench"));
    let (started, cpu) = (Instant::now(), cpu::cpu_time()?);
    let counts = join_all((0..runs).map(|_| run_once(&service, &user, deltas))).await;
    let (wall, cpu) = (started.elapsed(), cpu::cpu_time()?.saturating_sub(cpu));
    let events = counts.into_iter().sum::<Result<usize, _>>()?;
    service.idle().await;
    Ok(Measured { events, wall, cpu })
}

/// One run from message to end; gives back how many events it had.
async fn run_once(service: &Service, user: &Principal, deltas: usize) -> Result<usize, Box<dyn Error>> {
    let new = NewRun { message: Some("go".into()), ..NewRun::default() };
    let submitted = service.submit(user, "talk", new, None).await?;
    let mut follower = service.follow_run(user, submitted.run, None).await?.ok_or("ended before it began")?;
    let (mut text, mut events, mut answer) = (String::new(), 0, None);
    while let Some(batch) = follower.next().await? {
        events += batch.len();
        for stored in batch {
            match Event::read(&stored.kind, &stored.body) {
                Ok(Event::TextDelta(piece)) => text.push_str(&piece.delta),
                Ok(Event::StreamComplete(complete)) => answer = Some(complete.text),
                _ => {}
            }
        }
    }
    if answer.as_deref() != Some(&text) || text.len() != deltas * DELTA.len() {
        return Err(format!("the text came out wrong: {} characters", text.len()).into());
    }
    Ok(events)
}
