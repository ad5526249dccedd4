//! PostgreSQL: the tables are in a schema of their own. A lock of the writer's connection is the right to write.

mod address;
mod connect;
mod copy_ends;
mod examine;
mod migrate;
mod node;
mod node_keeper;
mod upkeep;
mod vault;

use std::sync::Arc;

use protocol::Clock;

pub use address::PostgresAddress;
pub(crate) use connect::connect;
use connect::connect_writer;
pub(crate) use copy_ends::{connect_to_copy, connect_to_fill, lay_rules_aside, put_rules_back};
pub use examine::{ExaminedNode, ExaminedPostgres, examine};
pub use migrate::VERSION as SCHEMA_VERSION;
use upkeep::PostgresUpkeep;
pub use vault::VaultFit;
pub(crate) use vault::{name_of_key, note as note_key};

use crate::database::PostgresSession;
use crate::sql::{
    Audited, DELTA_PAUSE, DeltaLog, OpenDeltas, ReadThread, Readers, SqlConnection, SqlStore, StoreOptions,
    Upkeep as _, Writer, WriterParts, audit_of, begin_boot, place_messages, restore_deltas,
};
use crate::webhooks::WebhookWatch;
use crate::{Error, Publish};

/// Connections that read beside the writer.
pub const READERS: usize = 8;

/// Opens the database, bringing its schema up to date.
pub(crate) fn open_with(
    address: &PostgresAddress,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    options: StoreOptions,
) -> Result<SqlStore, Error> {
    on_own_thread(|| open(address, clock, publish, options))
}

/// Does work that blocks, and gives what it gives. A thread that runs tasks cannot wait for a connection itself.
pub(crate) fn on_own_thread<R: Send>(work: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or(Err(Error::Closed)))
}

fn open(
    address: &PostgresAddress,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    options: StoreOptions,
) -> Result<SqlStore, Error> {
    let StoreOptions { coalesce, boot, delta_pause, boundary, shared, vault } = options;
    let (open_deltas, notes_start) = (Arc::<OpenDeltas>::default(), boot.is_none());
    let mut log = DeltaLog::new(Arc::clone(&open_deltas));
    let begin = |conn: &SqlConnection| {
        restore_deltas(conn, clock.now().as_millisecond())?;
        place_messages(conn)?;
        begin_boot(conn, boot.or_else(|| connect::started_at(conn).ok()).as_deref(), clock.now())
    };
    let (conn, upkeep, nodes) = match &shared {
        None => {
            let (conn, upkeep) = connect_writer(address)?;
            // A server that is refused has changed nothing.
            if let Some(vault) = &vault {
                vault::require_and_note(&conn, vault)?;
            }
            begin(&conn)?;
            (conn, upkeep.note_start(notes_start), None)
        }
        Some(shared) => {
            let (conn, seat, nodes) = node::open(address, shared, &mut log, begin)?;
            let upkeep = PostgresUpkeep::of_node(&conn, address.clone(), seat)?;
            (conn, upkeep, Some(nodes))
        }
    };
    let seat = upkeep.seat();
    let from = address.clone();
    let readers = Readers::open(READERS, ReadThread::Other, Box::new(move || connect(&from)))?;
    let webhooks = Arc::<WebhookWatch>::default();
    let parts = WriterParts {
        conn,
        upkeep: Box::new(upkeep),
        delta_pause: delta_pause.unwrap_or(DELTA_PAUSE),
        boundary,
        webhooks: Arc::clone(&webhooks),
        log,
        nodes,
    };
    let writer = Writer::start(parts, clock, Arc::clone(&publish))?;
    let store = SqlStore::new(writer.clone(), readers, open_deltas, coalesce, webhooks);
    let (Some(seat), Some(shared)) = (seat, shared) else { return Ok(store) };
    Ok(store.among_nodes(node_keeper::keep(address.clone(), seat, shared.clock, (writer, publish))?))
}

/// Looks through the database at an address as it is at one moment, whether or not a server is using it.
pub fn audit(address: &PostgresAddress) -> Result<Audited, Error> {
    on_own_thread(|| {
        let conn = connect(address)?;
        migrate::require_newest(&conn)?;
        audit_of(&conn)
    })
}

/// The connection to a server, which every connection here is.
fn session_of(conn: &SqlConnection) -> Result<&PostgresSession, Error> {
    match conn {
        SqlConnection::Postgres(session) => Ok(session),
        SqlConnection::Sqlite(_) => Err(Error::Closed),
    }
}
