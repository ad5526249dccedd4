//! A real nginx with `deploy/nginx.conf`, on ports of its own, and a client for it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::compose_rules::upstream_servers;
use crate::debian::runs;
use crate::proxy;

/// The longest wait for nginx to start, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Folders that nginx writes to.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// A running nginx. Dropping it ends it.
pub(super) struct TrialProxy {
    process: Child,
    folder: TempDir,
    /// The address at which it serves without TLS, for this trial only.
    address: SocketAddr,
    /// The address at which it sends clients to HTTPS.
    pub(super) redirecting: SocketAddr,
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrialAnswer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl TrialProxy {
    /// Starts nginx in front of these nodes.
    pub(super) fn start(root: &Path, nodes: &[SocketAddr]) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot prepare nginx: {error}");
        let folder = tempfile::tempdir().map_err(failed)?;
        make_certificate(folder.path())?;
        let [address, encrypted, redirecting] = free_addresses()?;
        let shown = std::fs::read_to_string(root.join("deploy/nginx.conf")).map_err(failed)?;
        let listening = format!("listen {address};\n listen {encrypted} ssl http2;");
        let mut shown = put(&shown, "listen 443 ssl http2;", &listening)?;
        shown = put(&shown, "listen 80;", &format!("listen {redirecting};"))?;
        shown = put(&shown, "/etc/nginx/tls/", "")?;
        let servers = upstream_servers(&shown);
        if servers.len() != nodes.len() {
            return Err(format!("nginx.conf has {} nodes, and the trial has {}", servers.len(), nodes.len()));
        }
        for (server, node) in servers.iter().zip(nodes) {
            shown = put(&shown, server, &node.to_string())?;
        }
        let paths = TEMPORARY.map(|what| format!("{what}_temp_path temporary_{what};\n")).concat();
        shown = put(&shown, "http {\n", &format!("http {{\n{paths}"))?;
        let text = format!("daemon off;\nmaster_process off;\npid nginx.pid;\n{shown}");
        std::fs::write(folder.path().join("nginx.conf"), text).map_err(failed)?;
        let errors = File::create(folder.path().join("errors")).map_err(failed)?;
        let mut command = Command::new(proxy::program(root));
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf", "-e", "stderr"]);
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().map_err(failed)?;
        let mut proxy = Self { process, folder, address, redirecting };
        proxy.await_start()?;
        Ok(proxy)
    }

    fn await_start(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let has_ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || begin.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default();
                return Err(format!("nginx does not start with deploy/nginx.conf: {}", said.trim()));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends a request with these lines as its head, such as `Authorization: Bearer x`, and opens its answer.
    pub(super) fn open(&self, request: &str, lines: &[&str]) -> Result<TcpStream, String> {
        open(self.address, request, lines)
    }

    /// Returns the whole answer to a request.
    pub(super) fn ask(&self, request: &str, lines: &[&str]) -> Result<TrialAnswer, String> {
        ask(self.address, request, lines)
    }
}

impl Drop for TrialProxy {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _waited = self.process.wait();
    }
}

/// Asks at an address.
pub(super) fn ask(address: SocketAddr, request: &str, lines: &[&str]) -> Result<TrialAnswer, String> {
    let mut answer = Vec::new();
    let mut connection = open(address, request, lines)?;
    connection.read_to_end(&mut answer).map_err(|error| format!("{request} got no answer: {error}"))?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{request} got {answer:?}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("{request} got no status: {head}"))?;
    Ok(TrialAnswer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

fn open(address: SocketAddr, request: &str, lines: &[&str]) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("{request} cannot be sent: {error}");
    let mut connection = TcpStream::connect(address).map_err(failed)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let body = if request.starts_with("POST") { "{\"message\":\"Hello\"}" } else { "" };
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: agents.example\r\nConnection: close\r\nContent-Length: {}\r\n{lines}\r\n{body}",
        body.len()
    );
    connection.write_all(text.as_bytes()).map_err(failed)?;
    Ok(connection)
}

/// Replaces a part of the configuration that must be there.
fn put(text: &str, part: &str, instead: &str) -> Result<String, String> {
    if text.contains(part) {
        Ok(text.replace(part, instead))
    } else {
        Err(format!("deploy/nginx.conf does not say {part:?} any more; correct the trial"))
    }
}

/// Addresses on which no process listens now.
fn free_addresses<const N: usize>() -> Result<[SocketAddr; N], String> {
    let mut listeners = Vec::new();
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for address in &mut addresses {
        let bound = TcpListener::bind(*address).and_then(|listener| {
            *address = listener.local_addr()?;
            Ok(listener)
        });
        listeners.push(bound.map_err(|error| format!("there is no free port: {error}"))?);
    }
    Ok(addresses)
}

fn make_certificate(folder: &Path) -> Result<(), String> {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args([
        "-days",
        "2",
        "-subj",
        "/CN=agents.example",
        "-keyout",
        "privkey.pem",
        "-out",
        "fullchain.pem",
    ]);
    if runs(openssl.current_dir(folder)) {
        Ok(())
    } else {
        Err("openssl cannot make a certificate".to_owned())
    }
}
