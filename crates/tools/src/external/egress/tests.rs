//! Requests that the only way out lets through, against real listeners on this machine.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::*;

/// A listener that answers every connection with fixed bytes, and keeps what it was sent.
struct Listener {
    url: String,
    arrivals: Arc<AtomicUsize>,
    heard: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Listener {
    async fn answering(answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (arrivals, heard) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let (count, ears) = (Arc::clone(&arrivals), Arc::clone(&heard));
        let tasks = TaskTracker::new();
        let more = tasks.clone();
        tasks.spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (answer, ears): (String, Arc<std::sync::Mutex<Vec<String>>>) =
                    (answer.clone(), Arc::clone(&ears));
                more.spawn(async move {
                    let mut buffer = vec![0; 16 * 1024];
                    let read = socket.read(&mut buffer).await.unwrap_or(0);
                    ears.lock().unwrap().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
                    let _ = socket.write_all(answer.as_bytes()).await;
                    let _ = socket.shutdown().await;
                });
            }
        });
        Self { url, arrivals, heard }
    }

    fn arrivals(&self) -> usize {
        self.arrivals.load(Ordering::SeqCst)
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().concat().to_lowercase()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

fn egress(open: &[&str]) -> Egress {
    let mut allowed = Allowed::default();
    for url in open {
        allowed.add_url(url).unwrap();
    }
    Egress::new(allowed)
}

fn get(url: &str) -> Outgoing {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer hush"));
    headers.insert("accept", HeaderValue::from_static("application/json"));
    Outgoing { method: Method::GET, url: Url::parse(url).unwrap(), headers, body: None }
}

#[tokio::test]
async fn what_the_operator_opens_is_reached_and_nothing_else_on_this_machine() {
    let (open, closed) = (Listener::answering(ok("hello")).await, Listener::answering(ok("no")).await);
    let egress = egress(&[&open.url]);
    let answer = egress.send(get(&open.url)).await.unwrap();
    assert_eq!((answer.status, &*answer.body, answer.cut), (200, &b"hello"[..], false));
    assert!(matches!(egress.send(get(&closed.url)).await, Err(EgressError::Closed(_))));
    let by_name = closed.url.replace("127.0.0.1", "localhost");
    assert!(matches!(egress.send(get(&by_name)).await, Err(EgressError::Closed(_))));
    assert_eq!((open.arrivals(), closed.arrivals()), (1, 0));
}

#[tokio::test]
async fn a_name_that_leads_inside_is_closed_even_on_the_usual_ports() {
    let error = egress(&[]).send(get("http://localhost/")).await.unwrap_err();
    assert_eq!(error, EgressError::Closed("localhost".into()));
    assert!(!error.may_have_arrived());
    assert!(!error.to_string().contains("127.0.0.1"), "it does not tell where the name leads");
}

#[tokio::test]
async fn every_spelling_of_an_inner_address_is_closed() {
    for url in [
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://[::1]/",
        "http://[::]/",
        "http://0/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://①②⑦.⓪.⓪.①/",
        "http://[fd00:ec2::254]/",
        "http://user:pass@example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://example.com:22/",
        "http://example.com:6379/",
    ] {
        let error = egress(&[]).client(&Url::parse(url).unwrap()).unwrap_err();
        assert!(matches!(error, EgressError::Closed(_)), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_redirect_is_checked_like_any_other_address() {
    let inner = Listener::answering(ok("secret")).await;
    for target in
        [inner.url.as_str(), "file:///etc/passwd", "gopher://127.0.0.1:1/", "http://169.254.169.254/"]
    {
        let outer = Listener::answering(redirect(target)).await;
        let result = egress(&[&outer.url]).send(get(&outer.url)).await;
        assert!(matches!(result, Err(EgressError::Closed(_))), "{target}: {result:?}");
    }
    assert_eq!(inner.arrivals(), 0);
}

#[tokio::test]
async fn credentials_stay_with_the_host_they_are_for() {
    let other = Listener::answering(ok("there")).await;
    let first = Listener::answering(redirect(&other.url)).await;
    let answer = egress(&[&first.url, &other.url]).send(get(&first.url)).await.unwrap();
    assert_eq!(answer.body, b"there");
    assert!(first.heard().contains("bearer hush"));
    assert!(
        !other.heard().contains("hush") && other.heard().contains("application/json"),
        "{}",
        other.heard()
    );
}

#[tokio::test]
async fn a_redirect_of_what_changes_something_is_not_followed() {
    let other = Listener::answering(ok("there")).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let first = Listener::answering(redirect(&other.url).replace("302 Found", status)).await;
        let request = Outgoing { method: Method::POST, body: Some(Bytes::from("pay")), ..get(&first.url) };
        let error = egress(&[&first.url, &other.url]).send(request).await.unwrap_err();
        assert!(matches!(error, EgressError::Redirected(_)) && error.may_have_arrived(), "{status}: {error}");
    }
    assert_eq!(other.arrivals(), 0);
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let circle = Listener::answering(redirect("/again")).await;
    let error = egress(&[&circle.url]).send(get(&circle.url)).await.unwrap_err();
    assert!(matches!(error, EgressError::Redirected(_)), "{error}");
    assert_eq!(circle.arrivals(), MAX_REDIRECTS + 1);
    let nobody = egress(&[&url]).send(get(&url)).await.unwrap_err();
    assert!(matches!(nobody, EgressError::Unreached(_)) && !nobody.may_have_arrived());
}

#[tokio::test]
async fn an_endless_answer_is_read_to_the_bound() {
    let long = "x".repeat(MAX_ANSWER_BYTES);
    for (more, cut) in [("", false), ("y", true)] {
        let listener = Listener::answering(ok(&format!("{long}{more}"))).await;
        let answer = egress(&[&listener.url]).send(get(&listener.url)).await.unwrap();
        assert_eq!((answer.body.len(), answer.cut), (MAX_ANSWER_BYTES, cut));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_may_have_arrived() {
    let listener = Listener::answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".into()).await;
    let error = egress(&[&listener.url]).send(get(&listener.url)).await.unwrap_err();
    assert!(matches!(error, EgressError::Broken(_)) && error.may_have_arrived());
}
