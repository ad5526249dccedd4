//! Stands between a store and its PostgreSQL, and cuts connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// The name of PostgreSQL's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// More than a piece of an answer has.
const ANSWER_BYTES: usize = 65_536;

/// No cut is due.
const NEVER: isize = isize::MAX;

pub(crate) struct CutProxy {
    folder: TempDir,
    rest: String,
    plan: Arc<Plan>,
}

struct Plan {
    /// Pieces of what clients send until the cut.
    left: AtomicIsize,
    /// Whether the last piece is still handed on: then the server does what it says, and the client does not hear of
    /// it.
    hands_on: AtomicUsize,
    cuts: AtomicUsize,
    /// Bytes of an answer that are handed on at once.
    piece_bytes: usize,
}

impl CutProxy {
    /// Listens in a folder of its own, for the server at this address.
    pub(crate) fn start(address: &str) -> Self {
        Self::start_with(address, ANSWER_BYTES)
    }

    /// Listens, too, but hands on an answer of the server in pieces of `piece_bytes` bytes.
    pub(crate) fn start_with(address: &str, piece_bytes: usize) -> Self {
        let host = address.split(' ').find_map(|part| part.strip_prefix("host=")).unwrap();
        let rest = address.split(' ').filter(|part| !part.starts_with("host=")).collect::<Vec<_>>().join(" ");
        let server = PathBuf::from(host).join(SOCKET);
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let plan = Arc::new(Plan {
            left: AtomicIsize::new(NEVER),
            hands_on: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            piece_bytes,
        });
        let shared = Arc::clone(&plan);
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, plan) = (server.clone(), Arc::clone(&shared));
                tokio::spawn(
                    async move { pass(client, UnixStream::connect(server).await.unwrap(), &plan).await },
                );
            }
        });
        Self { folder, rest, plan }
    }

    pub(crate) fn address(&self) -> String {
        format!("host={} {}", self.folder.path().display(), self.rest)
    }

    /// Cuts the connection at the piece with this number from now on.
    pub(crate) fn cut_after(&self, pieces: usize, hands_on: bool) {
        self.plan.hands_on.store(usize::from(hands_on), Ordering::SeqCst);
        self.plan.left.store(isize::try_from(pieces).unwrap(), Ordering::SeqCst);
    }

    /// Whether no cut is due.
    pub(crate) fn has_cut(&self) -> bool {
        self.plan.left.load(Ordering::SeqCst) == NEVER
    }

    pub(crate) fn cut_no_more(&self) {
        self.plan.left.store(NEVER, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::SeqCst)
    }
}

async fn pass(mut client: UnixStream, mut server: UnixStream, plan: &Plan) {
    let (mut said, mut answered) = (vec![0; ANSWER_BYTES], vec![0; ANSWER_BYTES]);
    loop {
        tokio::select! {
            read = client.read(&mut said) => {
                let Ok(bytes @ 1..) = read else { return };
                let is_cut = plan.left.load(Ordering::SeqCst) != NEVER
                    && plan.left.fetch_sub(1, Ordering::SeqCst) == 1;
                if !is_cut || plan.hands_on.load(Ordering::SeqCst) == 1 {
                    server.write_all(said.get(..bytes).unwrap()).await.unwrap();
                }
                if is_cut {
                    plan.left.store(NEVER, Ordering::SeqCst);
                    plan.cuts.fetch_add(1, Ordering::SeqCst);
                    return; // the answer of the server is lost
                }
            }
            read = server.read(&mut answered) => {
                let Ok(bytes @ 1..) = read else { return };
                for piece in answered.get(..bytes).unwrap().chunks(plan.piece_bytes) {
                    if client.write_all(piece).await.is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}
