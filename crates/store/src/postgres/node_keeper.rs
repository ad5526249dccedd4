//! Keeps a node among the others: renews its lease, tells the others of commits, hears of theirs, and looks for nodes that
//! are silent. It has a connection of its own, because none of this may wait for a transaction.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};

use super::address::PostgresAddress;
use super::node::{LEASE_MS, NOW, lock_name};
use crate::sql::{ACTIVE_RUN, NodeKeeper, NodeSeat, SilentNode, Writer};
use crate::{Error, NodeNews, Publish, SharedClock};

/// How often the lease is renewed and other nodes are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How often commits of others are looked for without being told.
const POLL: Duration = Duration::from_millis(250);

/// The shortest time between two words to the others.
const TELLING_PAUSE: Duration = Duration::from_millis(10);

/// The pause before a lost connection is made again, and the longest wait for an answer.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(5);

/// A node judges others only after this time of a good connection: after an outage, all leases are over.
const LEASE: Duration = Duration::from_millis(LEASE_MS.unsigned_abs());

struct Keeper {
    address: PostgresAddress,
    seat: Arc<NodeSeat>,
    clock: Arc<SharedClock>,
    writer: Writer,
    publish: Arc<dyn Publish>,
}

/// Begins to keep a node, until what this gives is dropped.
pub(super) fn keep(
    address: PostgresAddress,
    seat: Arc<NodeSeat>,
    clock: Arc<SharedClock>,
    (writer, publish): (Writer, Arc<dyn Publish>),
) -> Result<NodeKeeper, Error> {
    let keeper = Keeper { address, seat: Arc::clone(&seat), clock, writer, publish };
    let (stop, mut stopped) = oneshot::channel();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Folder)?;
    std::thread::Builder::new()
        .name("rondo-node".into())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keeper.keep() => {}
                    _ = &mut stopped => {}
                }
            });
            // A name that is being looked up would hold the thread.
            runtime.shutdown_background();
        })
        .map_err(Error::Folder)?;
    Ok(NodeKeeper::new(seat, stop))
}

impl Keeper {
    async fn keep(&self) {
        loop {
            if let Err(error) = self.session().await {
                tracing::debug!(%error, "the connection that keeps this node is lost; it is made again");
            }
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    /// Keeps the node as long as one connection lasts.
    async fn session(&self) -> Result<(), Error> {
        match &self.address.tls {
            None => {
                let (client, connection) =
                    self.address.config.connect(NoTls).await.map_err(Error::of_postgres)?;
                self.keep_on(client, connection).await
            }
            Some(tls) => {
                let (client, connection) =
                    self.address.config.connect(tls.clone()).await.map_err(Error::of_postgres)?;
                self.keep_on(client, connection).await
            }
        }
    }

    async fn keep_on<T>(&self, client: Client, connection: Connection<Socket, T>) -> Result<(), Error>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let heard = Notify::new();
        let mut listening = pin!(listen(connection, &heard));
        let mut working = pin!(self.work(&client, &heard));
        tokio::select! {
            ended = &mut listening => ended,
            ended = &mut working => ended,
        }
    }

    async fn work(&self, client: &Client, heard: &Notify) -> Result<(), Error> {
        let schema = self.address.schema();
        let begin =
            format!("SET search_path = {schema}; SET statement_timeout = '5s'; LISTEN rondo_{schema}");
        within_patience(client.batch_execute(&begin)).await?;
        let (mut look, mut poll) = (tokio::time::interval(LOOK), tokio::time::interval(POLL));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = SeenNodes { since: Instant::now(), unlocked: HashMap::new() };
        loop {
            tokio::select! {
                () = heard.notified() => self.writer.follow(&self.seat),
                _ = poll.tick() => self.writer.follow(&self.seat),
                _ = look.tick() => self.look(client, &mut seen).await?,
                () = self.seat.telling.notified() => {
                    if self.seat.take_news() {
                        within_patience(client.batch_execute(&format!("NOTIFY rondo_{schema}"))).await?;
                        tokio::time::sleep(TELLING_PAUSE).await;
                    }
                }
            }
        }
    }

    /// Renews the lease, and looks for nodes that are gone and for runs without an owner.
    async fn look(&self, client: &Client, seen: &mut SeenNodes) -> Result<(), Error> {
        let number = self.seat.number();
        let renew = format!(
            "UPDATE nodes SET lease_until = {NOW} + $2, held = $3 WHERE number = $1 RETURNING lease_until - $2"
        );
        match within_patience(client.query_opt(&renew, &[&number, &LEASE_MS, &self.seat.held.heavy_users()]))
            .await?
        {
            Some(row) => self.clock.set(row.try_get(0).map_err(Error::of_postgres)?),
            None => {
                self.seat.note_missing(number);
                self.writer.follow(&self.seat);
            }
        }
        let others = format!(
            "SELECT n.number, n.lease_until, n.lease_until < {NOW}, EXISTS (SELECT 1 FROM pg_locks l
                WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
                    AND l.classid::bigint << 32 | l.objid::bigint = hashtextextended($2 || n.number, 0)), n.held
                FROM nodes n WHERE n.number <> $1"
        );
        let prefix = lock_name(&self.address, 0);
        let prefix = prefix.trim_end_matches('0');
        let mut silent = Vec::new();
        let mut unlocked = HashMap::new();
        let mut held = Vec::new();
        for row in within_patience(client.query(&others, &[&number, &prefix])).await? {
            let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
            let (number, lease_until, is_expired, is_locked): (i64, i64, bool, bool) =
                read().map_err(Error::of_postgres)?;
            let node = SilentNode { number, lease_until };
            held.push(row.try_get(4).map_err(Error::of_postgres)?);
            let is_gone = !is_locked && seen.unlocked.get(&node.number) == Some(&node.lease_until);
            if !is_locked {
                unlocked.insert(node.number, node.lease_until);
            }
            if is_gone || is_expired && seen.since.elapsed() > LEASE {
                silent.push(node);
            }
        }
        seen.unlocked = unlocked;
        self.seat.held.take_in(held.into_iter());
        let orphans = format!(
            "SELECT 1 FROM runs r WHERE r.{ACTIVE_RUN}
            AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = r.owner) LIMIT 1"
        );
        if !silent.is_empty() || within_patience(client.query_opt(orphans.as_str(), &[])).await?.is_some() {
            self.seat.set_silent(silent);
            self.publish.publish_news(NodeNews { orphans: true, ..NodeNews::default() });
        }
        Ok(())
    }
}

/// The answer to a question. One that does not come means that the connection is cut.
async fn within_patience<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(Error::of_postgres),
        Err(_) => Err(Error::Disconnected(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// The other nodes as they were seen on this connection.
struct SeenNodes {
    since: Instant,
    /// Nodes whose connection had ended, with their leases.
    unlocked: HashMap<i64, i64>,
}

/// Drives a connection, and notes each word of another node.
async fn listen<T>(mut connection: Connection<Socket, T>, heard: &Notify) -> Result<(), Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(_) = message.map_err(Error::of_postgres)? {
            heard.notify_one();
        }
    }
    Ok(())
}
