//! A socket in front of PostgreSQL that passes everything on, and counts statements and bytes on the way.
//!
//! It takes processor time of the load's core, so it is there only in a measurement of its own.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// The name that clients of PostgreSQL expect in the folder of its socket.
const SOCKET: &str = ".s.PGSQL.5432";
/// Bytes that are passed on at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// A message of a client begins with a letter and with its length, which counts itself. The first message has no letter.
const LENGTH_BYTES: usize = 4;
const HEADER_BYTES: usize = 1 + LENGTH_BYTES;
/// The letters of messages that execute a statement: a prepared one, or a text.
const EXECUTE: u8 = b'E';
const QUERY: u8 = b'Q';

/// The traffic that has passed over all connections.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassedTraffic {
    pub(super) statements: usize,
    pub(super) to_database: usize,
    pub(super) from_database: usize,
}

/// The socket. It ends, with its connections, when it is dropped.
pub(super) struct PassThrough {
    folder: TempDir,
    traffic: Rc<Cell<PassedTraffic>>,
    _connections: JoinSet<()>,
}

impl PassThrough {
    /// Listens, and passes on to the server whose socket is in a folder.
    pub(super) fn start(server: &Path) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let listener = UnixListener::bind(folder.path().join(SOCKET));
        let listener = listener.map_err(|error| format!("cannot listen on a socket: {error}"))?;
        let traffic = Rc::<Cell<PassedTraffic>>::default();
        let mut connections = JoinSet::new();
        connections.spawn_local(accept_all(listener, server.join(SOCKET), Rc::clone(&traffic)));
        Ok(Self { folder, traffic, _connections: connections })
    }

    /// The folder of the socket.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn traffic(&self) -> PassedTraffic {
        self.traffic.get()
    }
}

async fn accept_all(listener: UnixListener, server: std::path::PathBuf, traffic: Rc<Cell<PassedTraffic>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (server, traffic) = (server.clone(), Rc::clone(&traffic));
        connections.spawn_local(async move {
            // A connection that cannot be made ends, which the client notices.
            if let Ok(server) = UnixStream::connect(server).await {
                pass_both_ways(client, server, &traffic).await;
            }
        });
    }
}

async fn pass_both_ways(client: UnixStream, server: UnixStream, traffic: &Cell<PassedTraffic>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut messages = MessageCounter::default();
    let sent = pass(from_client, to_server, |bytes| {
        let before = traffic.get();
        traffic.set(PassedTraffic {
            statements: before.statements + messages.count_statements(bytes),
            to_database: before.to_database + bytes.len(),
            ..before
        });
    });
    let answered = pass(from_server, to_client, |bytes| {
        let before = traffic.get();
        traffic.set(PassedTraffic { from_database: before.from_database + bytes.len(), ..before });
    });
    // Either end of a connection ends both.
    tokio::select! {
        () = sent => {}
        () = answered => {}
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut see: impl FnMut(&[u8])) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count) = from.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        see(bytes);
        if bytes.is_empty() || to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// Finds the messages in what a client sends, however it is cut into pieces.
#[derive(Default)]
struct MessageCounter {
    has_begun: bool,
    /// The part of a header that has arrived.
    header: Vec<u8>,
    /// Bytes of a message that are still to come.
    left: usize,
}

impl MessageCounter {
    /// How many statements begin in these bytes.
    fn count_statements(&mut self, mut bytes: &[u8]) -> usize {
        let mut statements = 0;
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let wanted = if self.has_begun { HEADER_BYTES } else { LENGTH_BYTES };
            let taken = (wanted - self.header.len()).min(bytes.len());
            let (header, rest) = bytes.split_at(taken);
            self.header.extend_from_slice(header);
            bytes = rest;
            if self.header.len() == wanted {
                statements +=
                    usize::from(matches!(self.header.first(), Some(&EXECUTE | &QUERY)) && self.has_begun);
                let length =
                    self.header.last_chunk::<LENGTH_BYTES>().map(|length| u32::from_be_bytes(*length));
                self.left = (length.unwrap_or_default() as usize).saturating_sub(LENGTH_BYTES);
                self.header.clear();
                self.has_begun = true;
            }
        }
        statements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: &str, body: &str) -> Vec<u8> {
        let length = u32::try_from(body.len() + LENGTH_BYTES).unwrap();
        [letter.as_bytes(), &length.to_be_bytes(), body.as_bytes()].concat()
    }

    #[test]
    fn statements_are_counted_in_pieces_of_any_size() {
        let sent = [
            message("", "EQEQ user rondo"),
            message("Q", "SET search_path = E"),
            message("P", "Q"),
            message("B", "E"),
            message("E", ""),
            message("S", ""),
            message("E", "QQQQQ"),
        ]
        .concat();
        for size in 1..sent.len() + 1 {
            let mut counter = MessageCounter::default();
            let counted: usize = sent.chunks(size).map(|piece| counter.count_statements(piece)).sum();
            assert_eq!(counted, 3, "in pieces of {size} bytes");
        }
    }
}
