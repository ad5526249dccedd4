//! The way from one node to PostgreSQL, which can be cut: the node connects to a socket of this process, which hands
//! everything on.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::stage::TortureError;

/// The name of PostgreSQL's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// Bytes that are handed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The state of the link, which decides about what it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Hands it on.
    Open,
    /// Keeps it, as a network does that loses everything. Bytes that were kept are handed on when the link is open
    /// again, even if their sender no longer waits.
    Silent,
    /// Closes every connection, old and new.
    Severed,
}

/// Dropping it closes all connections.
pub(crate) struct DatabaseLink {
    folder: TempDir,
    state: watch::Sender<LinkState>,
    _tasks: JoinSet<()>,
}

impl DatabaseLink {
    /// A link to the PostgreSQL whose socket is in this folder.
    pub(crate) fn open(server: &Path) -> Result<Self, TortureError> {
        let folder = tempfile::tempdir()?;
        let listener = UnixListener::bind(folder.path().join(SOCKET))?;
        let state = watch::Sender::new(LinkState::Open);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server.join(SOCKET), state.subscribe()));
        Ok(Self { folder, state, _tasks: tasks })
    }

    /// The folder of the socket that a node connects to.
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The address for a node, as a URL.
    pub(crate) fn url(&self) -> String {
        format!("postgres://rondo@{}/rondo", self.folder().display().to_string().replace('/', "%2F"))
    }

    pub(crate) fn set(&self, state: LinkState) {
        self.state.send_replace(state);
    }
}

async fn accept(listener: UnixListener, server: PathBuf, state: watch::Receiver<LinkState>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(hand_on(client, server.clone(), state.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn hand_on(client: UnixStream, server: PathBuf, state: watch::Receiver<LinkState>) {
    let mut severed = state.clone();
    let passing = async {
        until_open(&mut state.clone()).await;
        let Ok(server) = UnixStream::connect(server).await else { return };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = pump(from_client, to_server, state.clone()) => {}
            () = pump(from_server, to_client, state.clone()) => {}
        }
    };
    tokio::select! {
        () = passing => {}
        _ = severed.wait_for(|state| *state == LinkState::Severed) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<LinkState>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut piece).await {
        until_open(&mut state).await;
        if to.write_all(piece.get(..bytes).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}

async fn until_open(state: &mut watch::Receiver<LinkState>) {
    if state.wait_for(|state| *state == LinkState::Open).await.is_err() {
        std::future::pending().await // the link is being dropped
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn heard(listener: &UnixListener) -> (UnixStream, Vec<u8>) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = vec![0; 2];
        stream.read_exact(&mut heard).await.unwrap();
        (stream, heard)
    }

    #[tokio::test]
    async fn a_silent_link_keeps_what_it_gets_and_a_severed_one_closes() {
        let server = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(server.path().join(SOCKET)).unwrap();
        let link = DatabaseLink::open(server.path()).unwrap();
        let socket = link.folder().join(SOCKET);

        let mut client = UnixStream::connect(&socket).await.unwrap();
        client.write_all(b"hi").await.unwrap();
        let (mut there, said) = heard(&listener).await;
        assert_eq!(said, b"hi");

        link.set(LinkState::Silent);
        client.write_all(b"ho").await.unwrap();
        let mut held = [0; 2];
        let early = tokio::time::timeout(Duration::from_millis(50), there.read_exact(&mut held)).await;
        assert!(early.is_err(), "nothing gets through");
        drop(client);
        link.set(LinkState::Open);
        there.read_exact(&mut held).await.unwrap();
        assert_eq!(&held, b"ho", "it arrives late, though its sender has left");

        let mut client = UnixStream::connect(&socket).await.unwrap();
        client.write_all(b"hi").await.unwrap();
        let _there = heard(&listener).await;
        link.set(LinkState::Severed);
        assert_eq!(client.read(&mut held).await.unwrap_or(0), 0);
        let mut other = UnixStream::connect(&socket).await.unwrap();
        assert_eq!(other.read(&mut held).await.unwrap_or(0), 0, "nor is there a new one");
    }
}
