//! A server of files with ranges, tags, redirects and accidents. Its thread ends with the test's process.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub(super) struct Entry {
    pub(super) body: Vec<u8>,
    pub(super) headers: Vec<(&'static str, String)>,
    /// Instead of 200 or 206.
    pub(super) status: Option<&'static str>,
    /// The body's length as it is announced, if not the truth.
    pub(super) length: Option<u64>,
    /// How many bytes of a body are sent before the connection ends.
    pub(super) cut: Option<usize>,
    /// How many bytes of a body are sent before nothing more comes.
    pub(super) hold: Option<usize>,
}

impl Entry {
    pub(super) fn of(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn redirect(to: impl Into<String>) -> Self {
        Self { status: Some("302 Found"), ..Self::default() }.with("location", to)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) range: Option<String>,
    pub(super) if_range: Option<String>,
    /// Bytes of the body that were sent.
    pub(super) sent: usize,
}

#[derive(Clone)]
pub(super) struct Files {
    pub(super) url: String,
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Files {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let files = Self { url, entries: Arc::default(), seen: Arc::default() };
        let served = files.clone();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                held.extend(served.answer(stream.unwrap()));
            }
        });
        files
    }

    pub(super) fn put(&self, path: &str, entry: Entry) {
        self.entries.lock().unwrap().insert(path.to_owned(), entry);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Gives back a connection that is to stay open.
    fn answer(&self, mut stream: TcpStream) -> Option<TcpStream> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let missing = Entry { status: Some("404 Not Found"), ..Entry::default() };
        let entry = self.entries.lock().unwrap().get(&path).cloned().unwrap_or(missing);
        let (range, if_range) = (header("range"), header("if-range"));
        let etag = entry.headers.iter().find(|(name, _)| *name == "etag").map(|(_, value)| value);
        let asked = range.as_deref().filter(|_| if_range.is_none() || if_range.as_ref() == etag);
        let from = asked.map(|range| range["bytes=".len()..].trim_end_matches('-').parse::<usize>().unwrap());
        let rest = &entry.body[from.unwrap_or(0)..];
        let status = entry.status.unwrap_or(if from.is_some() { "206 Partial Content" } else { "200 OK" });
        let length = entry.length.unwrap_or(rest.len() as u64);
        let mut reply = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n");
        if let Some(from) = from {
            let (last, total) = (entry.body.len() - 1, entry.body.len());
            reply += &format!("content-range: bytes {from}-{last}/{total}\r\n");
        }
        for (name, value) in &entry.headers {
            reply += &format!("{name}: {value}\r\n");
        }
        let sent = entry.cut.or(entry.hold).unwrap_or(rest.len()).min(rest.len());
        self.seen.lock().unwrap().push(Seen { path, range, if_range, sent });
        stream.write_all(format!("{reply}\r\n").as_bytes()).unwrap();
        stream.write_all(&rest[..sent]).unwrap();
        entry.hold.map(|_| stream)
    }
}
