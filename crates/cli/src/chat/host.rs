//! The server that a chat goes through: the one that is running, or one of its own.

use std::time::Duration;

use protocol::{AppView, Page};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::control::Control;
use crate::{Trouble, assemble, cause, discover};

/// The app to talk to when there are several and none is named.
const USUAL_APP: &str = "studio";

/// How long a server may take to say which apps it has.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Host {
    client: Client,
    /// Without a trailing slash.
    base: String,
    /// What proves who we are, where that is asked.
    token: Option<String>,
    apps: Vec<String>,
    /// The server of our own, if there is one: it runs in `own` until `stop`.
    own: TaskTracker,
    stop: CancellationToken,
}

impl Host {
    /// The server at an address.
    pub(super) async fn at(url: &str, token: Option<String>) -> Result<Self, Trouble> {
        let base = url.trim_end_matches('/').to_owned();
        let client = client()?;
        let apps = apps(&client, &base, token.as_deref()).await?;
        Ok(Self { client, base, token, apps, own: TaskTracker::new(), stop: CancellationToken::new() })
    }

    /// The server that this configuration describes. If it is not running, one of our own on a free port.
    pub(super) async fn of(config: &Config) -> Result<Self, Trouble> {
        if let Some(Control { url, token }) = Control::of(&config.data)
            && let Ok(running) = Self::at(&url, Some(token)).await
        {
            return Ok(running);
        }
        // It may have another data folder. Whoever answers there is not shown our token.
        if let Ok(running) = Self::at(&format!("http://{}", config.listen), None).await {
            return Ok(running);
        }
        let config = &discover::complete(config.clone()).await;
        let service = assemble::service(config).map_err(|trouble| match trouble.downcast_ref() {
            Some(store::Error::Locked(_)) => {
                format!("{trouble}; if it is a server, name its address with --url").into()
            }
            _ => trouble,
        })?;
        service.start().await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let token = Some(service.control_token()?); // there may be keys, and whoever opens the folder needs none
        let apps = service.apps().into_iter().map(|app| app.id).collect();
        let (own, stop) = (TaskTracker::new(), CancellationToken::new());
        own.spawn(server::serve(listener, service, assemble::limits(config), stop.clone()));
        Ok(Self { client: client()?, base, token, apps, own, stop })
    }

    /// Ends our own server, if there is one.
    pub(super) async fn leave(self) {
        self.stop.cancel();
        self.own.close();
        self.own.wait().await;
    }

    /// The app that was asked for, or the only one, or the usual one.
    pub(super) fn choose(&self, wanted: Option<String>) -> Result<String, Trouble> {
        let known = self.apps.join(", ");
        match (wanted, self.apps.as_slice()) {
            (_, []) => {
                Err("the server has no app; add a folder with app.toml and instructions.md to its apps"
                    .into())
            }
            (Some(wanted), apps) if apps.contains(&wanted) => Ok(wanted),
            (Some(wanted), _) => Err(format!("there is no app \"{wanted}\"; there is {known}").into()),
            (None, [only]) => Ok(only.clone()),
            (None, apps) if apps.iter().any(|app| app == USUAL_APP) => Ok(USUAL_APP.to_owned()),
            (None, _) => Err(format!("which app? choose with --app: {known}").into()),
        }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Response, Trouble> {
        self.send(self.client.get(format!("{}{path}", self.base))).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Response, Trouble> {
        self.send(self.client.post(format!("{}{path}", self.base)).json(body)).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Trouble> {
        send(signed(request, self.token.as_deref()), &self.base).await
    }
}

fn client() -> Result<Client, Trouble> {
    Ok(Client::builder().no_proxy().connect_timeout(PATIENCE).build()?)
}

fn signed(request: RequestBuilder, token: Option<&str>) -> RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

async fn apps(client: &Client, base: &str, token: Option<&str>) -> Result<Vec<String>, Trouble> {
    let request = client.get(format!("{base}/v1/apps")).timeout(PATIENCE);
    let response = send(signed(request, token), base).await?;
    let page: Page<AppView> =
        response.json().await.map_err(|_| format!("{base} does not answer like Rondo"))?;
    Ok(page.data.into_iter().map(|app| app.id).collect())
}

/// The response, or what its problem document says.
async fn send(request: RequestBuilder, base: &str) -> Result<Response, Trouble> {
    let response = request
        .send()
        .await
        .map_err(|error| format!("cannot reach {base}: {}; is the server running there?", cause(&error)))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("no reason was given");
    Err(format!("{base} answered {status}: {detail}").into())
}
