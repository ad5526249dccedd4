//! The way of commands to the data folder: the HTTP API of the server that owns it or, when no server runs, of a private
//! server in this process. A private server answers requests and does nothing else: it takes up no run and no job.

use std::sync::Arc;
use std::time::Duration;

use identity::JwtIssuers;
use protocol::SystemClock;
use reqwest::header::ACCEPT;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::{ServerLimits, ServerSettings};
use service::{LOCAL_USER, Service};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::control::ControlFile;
use crate::{CommandError, CommandResult, cause, http, print, service_setup};

/// How long the running server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a user's name.
const MAX_USER_BYTES: usize = 200;

const NO_KEY_NEEDED: &str = "no server is running, so no key is needed: name the user with --user";

/// The app and the user that a command is about.
#[derive(Clone, clap::Args)]
pub(crate) struct UserOptions {
    /// The app
    #[arg(long)]
    pub(crate) app: String,
    /// The user; the default is `local`, the only user of a server without keys
    #[arg(long, value_parser = user_name)]
    pub(crate) user: Option<String>,
    /// A key of the user, in place of --user; needed for other users than `local` while a server runs
    #[arg(long, conflicts_with = "user")]
    pub(crate) key: Option<String>,
}

/// A name that a key can be made for. No request could ever act for another name.
fn user_name(name: &str) -> Result<String, String> {
    let fits = (1..=MAX_USER_BYTES).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic());
    if fits {
        Ok(name.to_owned())
    } else {
        Err("must be 1 to 200 letters, digits or marks, without spaces".into())
    }
}

/// A client of the HTTP API.
pub(crate) struct ApiClient {
    client: Client,
    /// The server's address without a trailing slash.
    base: String,
    /// Proves who we are, where that is asked.
    token: Option<String>,
    /// How errors call the server. Errors of a command's private server name no server: the command itself refuses.
    server_name: Option<String>,
    private: Option<PrivateServer>,
}

/// A server in this process: it runs in `task` until `stop`.
struct PrivateServer {
    task: TaskTracker,
    stop: CancellationToken,
}

impl ApiClient {
    /// The server at an address. With certificates, it must have one of them.
    pub(crate) fn for_url(url: &str, token: Option<String>, certificates: &[String]) -> CommandResult<Self> {
        let base = url.trim_end_matches('/').to_owned();
        if !base.contains("://") {
            return Err(format!("{base} is not a URL; write http://{base}").into());
        }
        let server_name = Some(base.clone());
        Ok(Self { client: client(&base, None, certificates)?, base, token, server_name, private: None })
    }

    /// The server of the data folder as its admin, who is the machine's own user.
    pub(crate) async fn open(config: &Config) -> CommandResult<Self> {
        match service_setup::service(config) {
            Ok(service) => Self::private(config, service, None).await,
            Err(trouble) => Self::of_running_server(config, trouble),
        }
    }

    /// The server of the data folder as one of its users. A person who may open the data folder can act for every user;
    /// a running server asks for a key.
    pub(crate) async fn open_as(config: &Config, options: UserOptions) -> CommandResult<Self> {
        let UserOptions { app, user, key } = options;
        let trouble = match service_setup::service(config) {
            Ok(_) if key.is_some() => return Err(NO_KEY_NEEDED.into()),
            Ok(service) => {
                let user = user.unwrap_or_else(|| LOCAL_USER.to_owned());
                return Self::private(config, service, Some(user)).await;
            }
            Err(trouble) => trouble,
        };
        let running = Self::of_running_server(config, trouble)?;
        match (key, user.as_deref().unwrap_or(LOCAL_USER)) {
            (Some(key), _) => Ok(Self { token: Some(key), ..running }),
            (None, LOCAL_USER) => Ok(running),
            (None, user) => Err(format!(
                "a server is running on this data folder, and it needs a key of the user {user}: stop the server \
                 first, or give a key with --key in place of --user; `rondo keys add {user} --app {app}` makes one, \
                 and from the first key on, each request to the server needs a key"
            )
            .into()),
        }
    }

    /// A private server that is called by its address in errors, for a command that has started the service.
    pub(crate) async fn for_service(config: &Config, service: Service) -> CommandResult<Self> {
        let private = Self::private(config, service, None).await?;
        Ok(Self { server_name: Some(private.base.clone()), ..private })
    }

    /// A private server, at which this client is the admin or, if one is given, a user.
    async fn private(config: &Config, service: Service, user: Option<String>) -> CommandResult<Self> {
        service.load_keys().await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let token = Some(service.control_token()?); // there may be keys, and who opens the folder needs none
        let issuers = JwtIssuers::new(config.issuers.clone(), Arc::new(SystemClock))?;
        let issuers = Some(Arc::new(issuers)); // their names are not for keys
        // Only this command connects, with as many connections as it likes.
        let limits = ServerLimits { max_connections_per_address: None, ..config.server.limits };
        let settings = ServerSettings { control_user: user, issuers, ..limits.into() };
        let (task, stop) = (TaskTracker::new(), CancellationToken::new());
        task.spawn(server::serve(listener, service, settings, stop.clone()));
        let private = Some(PrivateServer { task, stop });
        Ok(Self { client: client(&base, None, &[])?, base, token, server_name: None, private })
    }

    /// The running server, when the data folder could not be opened because that server has it. Any other trouble is
    /// given back. The lock says whether a server runs; the file that a killed server leaves behind would not.
    fn of_running_server(config: &Config, trouble: CommandError) -> CommandResult<Self> {
        match (trouble.downcast_ref(), ControlFile::of(&config.data)) {
            (
                Some(store::Error::Locked(_) | store::Error::InUse(_)),
                Some(ControlFile { url: base, token, certificates }),
            ) => {
                let client = client(&base, Some(PATIENCE), &certificates)?;
                let server_name = Some("the server".to_owned());
                Ok(Self { client, base, token: Some(token), server_name, private: None })
            }
            _ => Err(trouble),
        }
    }

    pub(crate) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// Does the work, ends the private server, and prints the report.
    pub(crate) async fn report(
        self,
        work: impl AsyncFnOnce(&Self) -> CommandResult<String>,
    ) -> CommandResult {
        let report = work(&self).await;
        self.close().await;
        print(&report?)
    }

    /// Ends the private server, if there is one.
    pub(crate) async fn close(self) {
        let Some(PrivateServer { task, stop }) = self.private else { return };
        stop.cancel();
        task.close();
        task.wait().await;
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// The response, or the reason that its problem document gives.
    pub(crate) async fn send(&self, request: RequestBuilder) -> CommandResult<Response> {
        self.accepted_response(self.answer(request).await?).await
    }

    async fn answer(&self, request: RequestBuilder) -> CommandResult<Response> {
        let unreachable = |error: reqwest::Error| {
            format!("cannot reach {}: {}; is the server running there?", self.base, cause(&error))
        };
        Ok(request.send().await.map_err(unreachable)?)
    }

    async fn accepted_response(&self, response: Response) -> CommandResult<Response> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let problem: Value = response.json().await.unwrap_or_default();
        let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("no reason was given");
        match &self.server_name {
            Some(name) => Err(format!("{name} answered {status}: {detail}").into()),
            None => Err(detail.into()),
        }
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> CommandResult<T> {
        Ok(self.send(request).await?.json().await?)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> CommandResult<T> {
        self.read(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> CommandResult<Response> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> CommandResult {
        self.send(self.request(Method::DELETE, path)).await.map(drop)
    }

    /// The thing at a path; none if there is none.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> CommandResult<Option<T>> {
        let request = self.request(Method::GET, path).header(ACCEPT, "application/json");
        let response = self.answer(request).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Ok(Some(self.accepted_response(response).await?.json().await?))
    }
}

fn client(base: &str, patience: Option<Duration>, certificates: &[String]) -> CommandResult<Client> {
    let builder = http::own_builder(base, certificates)?.connect_timeout(CONNECT_PATIENCE);
    Ok(match patience {
        Some(patience) => builder.timeout(patience).build()?,
        None => builder.build()?,
    })
}
