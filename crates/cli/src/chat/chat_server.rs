//! The server that a chat goes through: the one that is running, or a private one that runs the chat's runs.

use std::time::Duration;

use protocol::{AppView, Page, ThreadId, ThreadView};
use reqwest::Method;

use crate::api_client::ApiClient;
use crate::config::Config;
use crate::control::ControlFile;
use crate::own_server::OwnServer;
use crate::{CommandResult, discover, own_server, service_setup};

/// How long a server may take to say which apps it has.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct ChatServer {
    pub(super) api: ApiClient,
    apps: Vec<String>,
    /// The app that the configuration names for chats.
    chat_app: Option<String>,
    /// Says that it is not the server of the data folder, if that is so.
    pub(super) elsewhere: Option<String>,
}

impl ChatServer {
    /// The server at an address.
    pub(super) async fn for_url(url: &str, token: Option<String>) -> CommandResult<Self> {
        Self::of(ApiClient::for_url(url, token, &[])?, url).await
    }

    /// The server at an address, which must have one of these certificates if there are any.
    async fn for_own_url(url: &str, token: Option<String>, certificates: &[String]) -> CommandResult<Self> {
        Self::of(ApiClient::for_url(url, token, certificates)?, url).await
    }

    async fn of(api: ApiClient, url: &str) -> CommandResult<Self> {
        let response = api.send(api.request(Method::GET, "/v1/apps").timeout(PATIENCE)).await?;
        let page: Page<AppView> = response
            .json()
            .await
            .map_err(|_| format!("{} does not answer like Rondo", url.trim_end_matches('/')))?;
        let apps = page.data.into_iter().map(|app| app.id).collect();
        Ok(Self { api, apps, chat_app: None, elsewhere: None })
    }

    /// The server that this configuration describes. If it is not running, one of our own on a free port.
    pub(super) async fn find(config: &Config) -> CommandResult<Self> {
        let chat_app = config.server.chat_app.clone();
        Ok(Self { chat_app, ..Self::reach(config).await? })
    }

    async fn reach(config: &Config) -> CommandResult<Self> {
        if let Some(ControlFile { url, token, certificates }) = ControlFile::of(&config.data)
            && let Ok(running) = Self::for_own_url(&url, Some(token), &certificates).await
        {
            return Ok(running);
        }
        // It may have another data folder. The server that answers there is not shown our token.
        let OwnServer { url, certificates } = OwnServer::of(config);
        if let Ok(running) = Self::for_own_url(&url, None, &certificates).await {
            return Ok(Self { elsewhere: Some(elsewhere_note(config)), ..running });
        }
        let config = &discover::complete(config.clone()).await;
        let service = service_setup::service(config).map_err(|trouble| match trouble.downcast_ref() {
            Some(store::Error::Locked(_)) => format!(
                "{trouble}; if this is a `rondo chat` in another terminal, run `rondo serve` and both chats \
                     through it; if a server is running, give its address with --url"
            )
            .into(),
            _ => trouble,
        })?;
        service.start().await?;
        Self::of(ApiClient::for_service(config, service).await?, "this process").await
    }

    /// The app of a thread. None for a thread that the server does not show, which it says when it gets a message.
    pub(super) async fn app_of(&self, thread: Option<ThreadId>) -> Option<String> {
        let view: ThreadView = self.api.get(&format!("/v1/threads/{}", thread?)).await.ok()?;
        Some(view.app_id)
    }

    /// The app that was asked for, or the one that also answers at `/api/chat`.
    pub(super) fn choose_app(&self, wanted: Option<String>) -> CommandResult<String> {
        if self.apps.is_empty() {
            return Err("the server has no app; make one with `rondo init NAME` in its folder of apps".into());
        }
        let usual = || service::default_app(self.chat_app.as_deref(), &self.apps).map(str::to_owned);
        let known = self.apps.join(", ");
        let elsewhere = self.elsewhere.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
        match wanted.or_else(usual) {
            Some(app) if self.apps.contains(&app) => Ok(app),
            Some(app) => Err(format!("there is no app \"{app}\"; there is {known}{elsewhere}").into()),
            None => Err(format!("which app? choose with --app: {known}").into()),
        }
    }
}

/// A person who has begun another folder expects their own apps there.
fn elsewhere_note(config: &Config) -> String {
    let (data, url) = (&config.data, own_server::url(config, config.listen));
    format!(
        "no server uses the data folder {}, so the server at {url} answers, with its own apps and data; \
         RONDO_LISTEN with a free port starts a private server instead",
        data.display()
    )
}
