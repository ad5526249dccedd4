//! The server that a chat goes through: the one that is running, or a private one that runs the chat's runs.

use std::time::Duration;

use protocol::{AppView, Page};
use reqwest::Method;

use crate::api_client::ApiClient;
use crate::config::Config;
use crate::control::ControlFile;
use crate::{CommandResult, discover, service_setup};

/// How long a server may take to say which apps it has.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct ChatServer {
    pub(super) api: ApiClient,
    apps: Vec<String>,
    /// The app that the configuration names for chats.
    chat_app: Option<String>,
}

impl ChatServer {
    /// The server at an address.
    pub(super) async fn at(url: &str, token: Option<String>) -> CommandResult<Self> {
        Self::of(ApiClient::at(url, token)?, url).await
    }

    async fn of(api: ApiClient, url: &str) -> CommandResult<Self> {
        let response = api.send(api.request(Method::GET, "/v1/apps").timeout(PATIENCE)).await?;
        let page: Page<AppView> = response
            .json()
            .await
            .map_err(|_| format!("{} does not answer like Rondo", url.trim_end_matches('/')))?;
        Ok(Self { api, apps: page.data.into_iter().map(|app| app.id).collect(), chat_app: None })
    }

    /// The server that this configuration describes. If it is not running, one of our own on a free port.
    pub(super) async fn find(config: &Config) -> CommandResult<Self> {
        let chat_app = config.server.chat_app.clone();
        Ok(Self { chat_app, ..Self::reach(config).await? })
    }

    async fn reach(config: &Config) -> CommandResult<Self> {
        if let Some(ControlFile { url, token }) = ControlFile::of(&config.data)
            && let Ok(running) = Self::at(&url, Some(token)).await
        {
            return Ok(running);
        }
        // It may have another data folder. Whoever answers there is not shown our token.
        if let Ok(running) = Self::at(&format!("http://{}", config.listen), None).await {
            return Ok(running);
        }
        let config = &discover::complete(config.clone()).await;
        let service = service_setup::service(config).map_err(|trouble| match trouble.downcast_ref() {
            Some(store::Error::Locked(_)) => {
                format!("{trouble}; if a server is running, give its address with --url").into()
            }
            _ => trouble,
        })?;
        service.start().await?;
        Self::of(ApiClient::serving(config, service).await?, "this process").await
    }

    /// The app that was asked for, or the one that also answers at `/api/chat`.
    pub(super) fn choose_app(&self, wanted: Option<String>) -> CommandResult<String> {
        if self.apps.is_empty() {
            return Err("the server has no app; make one with `rondo init NAME` in its folder of apps".into());
        }
        let usual = || service::default_app(self.chat_app.as_deref(), &self.apps).map(str::to_owned);
        let known = self.apps.join(", ");
        match wanted.or_else(usual) {
            Some(app) if self.apps.contains(&app) => Ok(app),
            Some(app) => Err(format!("there is no app \"{app}\"; there is {known}").into()),
            None => Err(format!("which app? choose with --app: {known}").into()),
        }
    }
}
