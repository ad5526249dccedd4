//! The server that a chat goes through: the one that is running, or a private one that runs the chat's runs.

use std::time::Duration;

use protocol::{AppView, Page};
use reqwest::Method;

use crate::api_client::ApiClient;
use crate::config::Config;
use crate::control::ControlFile;
use crate::{CommandResult, discover, service_setup};

/// The app to talk to when there are several and none is named.
const USUAL_APP: &str = "studio";

/// How long a server may take to say which apps it has.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct ChatServer {
    pub(super) api: ApiClient,
    apps: Vec<String>,
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
        Ok(Self { api, apps: page.data.into_iter().map(|app| app.id).collect() })
    }

    /// The server that this configuration describes. If it is not running, one of our own on a free port.
    pub(super) async fn find(config: &Config) -> CommandResult<Self> {
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

    /// The app that was asked for, or the only one, or the usual one.
    pub(super) fn choose_app(&self, wanted: Option<String>) -> CommandResult<String> {
        let known = self.apps.join(", ");
        match (wanted, self.apps.as_slice()) {
            (_, []) => {
                Err("the server has no app; make one with `rondo init NAME` in its folder of apps".into())
            }
            (Some(wanted), apps) if apps.contains(&wanted) => Ok(wanted),
            (Some(wanted), _) => Err(format!("there is no app \"{wanted}\"; there is {known}").into()),
            (None, [only]) => Ok(only.clone()),
            (None, apps) if apps.iter().any(|app| app == USUAL_APP) => Ok(USUAL_APP.to_owned()),
            (None, _) => Err(format!("which app? choose with --app: {known}").into()),
        }
    }
}
