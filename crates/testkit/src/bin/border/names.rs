//! A name server as attackers run theirs: names that lead inside, that change their mind, and that hide behind others.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UdpSocket;
use tokio_util::task::TaskTracker;

use crate::sentinels::PUBLIC;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const HEADER_BYTES: usize = 12;

/// The answer to a question.
enum Record {
    Four(Ipv4Addr),
    Six(Ipv6Addr),
    /// The name stands for this one, whose address follows.
    Alias(&'static str),
}

/// Answers until the end of the process.
pub(crate) async fn serve(tasks: &TaskTracker) {
    let socket = UdpSocket::bind("127.0.0.1:53").await.expect("the namespace has no other name server");
    tasks.spawn(async move {
        let asked = AtomicUsize::new(0);
        let mut packet = [0; 512];
        while let Ok((read, from)) = socket.recv_from(&mut packet).await {
            let question = packet.get(..read).unwrap_or_default();
            if let Some(answer) = answer(question, &asked) {
                let _ = socket.send_to(&answer, from).await;
            }
        }
    });
}

fn records(name: &str, kind: u16, asked: &AtomicUsize) -> Vec<Record> {
    let public = Record::Four(Ipv4Addr::from(PUBLIC));
    let inner = Record::Four(Ipv4Addr::LOCALHOST);
    // Names that change their mind do so from one question to the next.
    let turn = if kind == A && name.starts_with("rebind") { asked.fetch_add(1, Ordering::SeqCst) } else { 0 };
    match (name, kind) {
        ("public.test", A) => vec![public],
        ("inner.test" | "127.0.0.1.nip.test", A) => vec![inner],
        ("metadata.test", A) => vec![Record::Four(Ipv4Addr::new(169, 254, 169, 254))],
        ("private.test", A) => vec![Record::Four(Ipv4Addr::new(10, 0, 0, 1))],
        ("six.test", AAAA) => vec![Record::Six(Ipv6Addr::LOCALHOST)],
        ("mapped.test", AAAA) => vec![Record::Six(Ipv4Addr::LOCALHOST.to_ipv6_mapped())],
        ("translated.test", AAAA) => vec![Record::Six(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0x7f00, 1))],
        ("alias.test", A) => vec![Record::Alias("inner.test"), inner],
        ("mixed.test", A) => vec![Record::Four(Ipv4Addr::new(10, 0, 0, 1)), public, inner],
        ("rebind.test", A) => vec![if turn % 2 == 0 { public } else { inner }],
        ("rebind-first.test", A) => vec![if turn % 2 == 0 { inner } else { public }],
        _ => Vec::new(),
    }
}

/// The answer to one question; none to what is no question.
fn answer(packet: &[u8], asked: &AtomicUsize) -> Option<Vec<u8>> {
    let mut at = HEADER_BYTES;
    let mut labels: Vec<String> = Vec::new();
    while let Some(length) = packet.get(at).map(|length| usize::from(*length)).filter(|length| *length > 0) {
        labels.push(String::from_utf8_lossy(packet.get(at + 1..at + 1 + length)?).to_lowercase());
        at += 1 + length;
    }
    let end = at + 5;
    let kind = u16::from_be_bytes(packet.get(at + 1..at + 3)?.try_into().ok()?);
    let records = records(&labels.join("."), kind, asked);
    let count = u16::try_from(records.len()).ok()?;
    let mut answer = packet.get(..2)?.to_vec();
    answer.extend([0x85, 0x80, 0, 1]);
    answer.extend(count.to_be_bytes());
    answer.extend([0, 0, 0, 0]);
    answer.extend(packet.get(HEADER_BYTES..end)?);
    let mut owner: Vec<u8> = vec![0xc0, 0x0c]; // the name of the question
    for record in records {
        let (kind, data) = match record {
            Record::Four(address) => (A, address.octets().to_vec()),
            Record::Six(address) => (AAAA, address.octets().to_vec()),
            Record::Alias(name) => (CNAME, wire_name(name)),
        };
        answer.extend(&owner);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 0]); // of the internet, and forgotten at once
        answer.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        answer.extend(&data);
        if kind == CNAME {
            owner = data;
        }
    }
    Some(answer)
}

fn wire_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
