//! A client over real HTTP that asks again, under the same key, for what it got no answer to, and reads on where its
//! streams were cut.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use protocol::AppId;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use testkit::{Answer, Fuse, Method, TestApp};
use tokio_util::task::TaskTracker;

use crate::notes::{Notes, Seen, Told};

pub(crate) const RUNS: &str = "/v1/apps/test/runs";

/// The server has died, so there is no answer.
#[derive(Debug)]
pub(crate) struct Lost;

/// A client of one life of a server.
pub(crate) struct Client<'a> {
    app: &'a TestApp,
    fuse: &'a Fuse,
    notes: Arc<Notes>,
    /// Tasks that read streams; they continue until the server is gone.
    readers: TaskTracker,
    /// Runs with a reader.
    read: Mutex<BTreeSet<String>>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(app: &'a TestApp, fuse: &'a Fuse, notes: &Arc<Notes>, readers: &TaskTracker) -> Self {
        let (notes, readers) = (Arc::clone(notes), readers.clone());
        Self { app, fuse, notes, readers, read: Mutex::default() }
    }

    /// Returns the outcome of some work, unless the server dies first. An answer that arrives after its death is as
    /// good as nothing.
    async fn heard<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            biased;
            () = self.fuse.wait_until_blown() => Err(Lost),
            done = work => if self.fuse.is_blown() { Err(Lost) } else { Ok(done) },
        }
    }

    /// Takes up the folder of an app's documents as it is now.
    pub(crate) async fn update_knowledge(&self, app: &str) -> Result<(), Lost> {
        self.app.service.update_knowledge(&AppId::new(app));
        self.heard(self.app.service.idle()).await
    }

    /// The folder of an app.
    pub(crate) fn app_folder(&self, app: &str) -> PathBuf {
        self.app.data().with_file_name("apps").join(app)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.app.request(method, path)
    }

    /// Asks for something once; `step` is its name here and its key there.
    pub(crate) async fn ask(&self, step: &str, request: RequestBuilder) -> Result<Answer, Lost> {
        self.ask_as(step, &step.replace(' ', "-"), request).await
    }

    /// Asks for something once, under a key that is not its name.
    pub(crate) async fn ask_as(
        &self,
        step: &str,
        key: &str,
        request: RequestBuilder,
    ) -> Result<Answer, Lost> {
        if let Some(answer) = self.notes.answer(step) {
            return Ok(answer);
        }
        let answer = self.heard(self.app.send(request.header("idempotency-key", key))).await?;
        self.notes.answered(step, &answer);
        Ok(answer)
    }

    /// Asks for something that must succeed.
    async fn good(&self, step: &str, request: RequestBuilder) -> Result<Value, Lost> {
        let answer = self.ask(step, request).await?;
        if !(200..300).contains(&answer.status) {
            self.notes.finding(format!("{step} was refused: {answer:?}"));
        }
        Ok(answer.body)
    }

    pub(crate) async fn post(&self, step: &str, path: &str, body: &Value) -> Result<Value, Lost> {
        self.good(step, self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn put(&self, step: &str, path: &str, body: &Value) -> Result<Value, Lost> {
        self.good(step, self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn patch(&self, step: &str, path: &str, body: &Value) -> Result<Value, Lost> {
        self.good(step, self.request(Method::PATCH, path).json(body)).await
    }

    /// A POST without a body.
    pub(crate) async fn act(&self, step: &str, path: &str) -> Result<Value, Lost> {
        self.good(step, self.request(Method::POST, path)).await
    }

    pub(crate) async fn delete(&self, step: &str, path: &str) -> Result<Value, Lost> {
        self.good(step, self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Lost> {
        Ok(self.heard(self.app.get(path)).await?.body)
    }

    /// Sends a message and reads its run's stream from then on; or why it was refused.
    pub(crate) async fn try_say(&self, key: &str, body: Value) -> Result<Result<Told, Answer>, Lost> {
        if let Some(told) = self.notes.told(key) {
            return Ok(Ok(told));
        }
        if let Some(answer) = self.notes.answer(key) {
            return Ok(Err(answer));
        }
        let request = self.request(Method::POST, RUNS).header("idempotency-key", key).json(&body);
        let response = self.heard(request.send()).await?.expect("the server answers");
        if response.status() != 200 {
            let status = response.status().as_u16();
            let body = self.heard(response.json()).await?.unwrap_or_default();
            let answer = Answer { status, content_type: String::new(), body };
            self.notes.answered(key, &answer);
            return Ok(Err(answer));
        }
        let header = |name: &str| response.headers()[name].to_str().expect("it is text").to_owned();
        let told = Told { run: header("x-run-id"), thread: header("x-thread-id") };
        self.notes.tell(key, told.clone(), body);
        self.read(&told, response);
        Ok(Ok(told))
    }

    pub(crate) async fn say(&self, key: &str, body: Value) -> Result<Told, Lost> {
        match self.try_say(key, body).await? {
            Ok(told) => Ok(told),
            Err(answer) => panic!("{key} was refused: {answer:?}"),
        }
    }

    /// Sends a message in a new thread and reads the answer to its end.
    pub(crate) async fn turn(&self, key: &str, message: &str) -> Result<Told, Lost> {
        let told = self.say(key, json!({ "message": message })).await?;
        self.end(&told).await?;
        Ok(told)
    }

    fn read(&self, told: &Told, response: Response) {
        self.read.lock().expect("nobody panics here").insert(told.run.clone());
        self.readers.spawn(read(Arc::clone(&self.notes), told.run.clone(), response));
    }

    /// Reads on in a run's stream from the last event that was seen.
    async fn follow(&self, told: &Told) -> Result<(), Lost> {
        let last = self.notes.last(&told.run);
        let is_read = self.read.lock().expect("nobody panics here").contains(&told.run);
        if is_read || last.is_some_and(|(_, ended)| ended) {
            return Ok(());
        }
        let mut request = self.request(Method::GET, &format!("/v1/runs/{}/events", told.run));
        if let Some((id, _)) = last {
            request = request.header("last-event-id", id);
        }
        let response = self.heard(request.send()).await?.expect("the server answers");
        if response.status() == 200 {
            self.read(told, response);
        } else {
            self.notes.finding(format!("{}: no stream after {last:?}: {}", told.run, response.status()));
        }
        Ok(())
    }

    /// The data of the first event of this name.
    pub(crate) async fn wait_for_event(&self, told: &Told, event: &str) -> Result<Value, Lost> {
        if !self.notes.has_seen(&told.run, event) {
            self.follow(told).await?;
        }
        self.heard(self.notes.wait_for(&told.run, event)).await
    }

    /// Checks that something is so as this client sees it.
    pub(crate) fn check(&self, holds: bool, otherwise: &str) {
        if !holds {
            self.notes.finding(otherwise.to_owned());
        }
    }

    /// How a run ends.
    pub(crate) async fn end(&self, told: &Told) -> Result<String, Lost> {
        let end = self.wait_for_event(told, "run:end").await?;
        Ok(end["status"].as_str().expect("a status").to_owned())
    }
}

/// Reads a stream to its end, however that comes.
async fn read(notes: Arc<Notes>, run: String, mut response: Response) {
    let mut buffer = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = buffer.drain(..end + 2).collect();
            note(&notes, &run, &String::from_utf8(block).expect("a stream is UTF-8"));
        }
    }
}

fn note(notes: &Notes, run: &str, block: &str) {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let Some(event) = field("event: ") else { return };
    let id = field("id: ").and_then(|id| id.parse().ok()).expect("an event has a number");
    let data = field("data: ").expect("an event has data").to_owned();
    notes.saw(run, id, &Seen { event: event.to_owned(), data });
}
