//! Listeners in the namespace: sentinels that no tool may reach, one public host, and one inner host that is open.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::corpus::REDIRECTS;

/// The address of `public.test`.
pub(crate) const PUBLIC: [u8; 4] = [93, 184, 216, 34];

const CLOSED: &[&str] = &[
    "127.0.0.1",
    "127.127.127.127",
    "169.254.169.254",
    "10.0.0.1",
    "10.0.0.2",
    "192.168.1.1",
    "172.16.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "[::1]",
    "[fd00:ec2::254]",
];
const PORTS: &[u16] = &[22, 80, 443, 6379, 8080];

/// The listeners, and whether they were reached.
pub(crate) struct Sentinels {
    tasks: TaskTracker,
    reached: Arc<Mutex<Vec<String>>>,
    public: Arc<AtomicUsize>,
}

impl Sentinels {
    pub(crate) async fn start(tasks: &TaskTracker) -> Self {
        let this = Self { tasks: tasks.clone(), reached: Arc::default(), public: Arc::default() };
        for host in CLOSED {
            for port in PORTS {
                this.guard(format!("{host}:{port}")).await;
            }
        }
        for port in PORTS.iter().filter(|port| **port != 80) {
            this.guard(SocketAddr::from((PUBLIC, *port)).to_string()).await;
        }
        let public = listen(&SocketAddr::from((PUBLIC, 80)).to_string()).await;
        let (count, more) = (Arc::clone(&this.public), tasks.clone());
        tasks.spawn(async move {
            while let Ok((socket, _)) = public.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                more.spawn(redirect(socket));
            }
        });
        let (open, more) = (listen("10.0.0.2:8088").await, tasks.clone());
        tasks.spawn(async move {
            while let Ok((socket, _)) = open.accept().await {
                more.spawn(answer(
                    socket,
                    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nopen".into(),
                ));
            }
        });
        this
    }

    pub(crate) fn reached_addresses(&self) -> Vec<String> {
        self.reached.lock().expect("nobody panics while holding it").clone()
    }

    pub(crate) fn public(&self) -> usize {
        self.public.load(Ordering::SeqCst)
    }

    async fn guard(&self, address: String) {
        let (listener, reached) = (listen(&address).await, Arc::clone(&self.reached));
        let more = self.tasks.clone();
        self.tasks.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                reached.lock().expect("nobody panics while holding it").push(address.clone());
                more.spawn(answer(socket, "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\ninside".into()));
            }
        });
    }
}

async fn listen(address: &str) -> TcpListener {
    TcpListener::bind(address)
        .await
        .unwrap_or_else(|error| unreachable!("{address} cannot be listened on: {error}"))
}

async fn answer(mut socket: TcpStream, answer: String) {
    let mut buffer = [0; 8192];
    let _ = socket.read(&mut buffer).await;
    let _ = socket.write_all(answer.as_bytes()).await;
    let _ = socket.shutdown().await;
}

/// Redirects a request for `/redirect/N` to the target in the corpus.
async fn redirect(mut socket: TcpStream) {
    let mut buffer = [0; 8192];
    let read = socket.read(&mut buffer).await.unwrap_or(0);
    let asked = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).into_owned();
    let path = asked.split(' ').nth(1).unwrap_or_default();
    let number = path.strip_prefix("/redirect/").and_then(|number| number.parse::<usize>().ok());
    let status = if asked.starts_with("POST") { "307 Temporary Redirect" } else { "302 Found" };
    let said = match number.and_then(|number| REDIRECTS.get(number)) {
        Some(to) => {
            format!("HTTP/1.1 {status}\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        None => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
    };
    let _ = socket.write_all(said.as_bytes()).await;
    let _ = socket.shutdown().await;
}
