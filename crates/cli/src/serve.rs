//! `rondo serve`: from configuration to a listening server, and from a signal to a clean end.

mod encryption;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use identity::JwtIssuers;
use model::MODEL_CHOICES;
use model::known_models::Retirement;
use protocol::SystemClock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{ServerLimits, ServerSettings, Shutdown};
use service::{CallShares, Service};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use self::encryption::{CertificateReload, ServerCertificate};
use crate::config::{Config, LogFormat};
use crate::control::{ControlFile, PublishedControl};
use crate::pull;
use crate::watch::AppWatch;
use crate::weights::WeightsKind;
use crate::{
    CommandError, CommandResult, catalogue, discover, embedded_apps, local, model_limits, own_server,
    service_setup,
};

pub(crate) use self::encryption::{end_notice, require_encryption};

/// Files that the server has open besides its connections, at most: its database, models and tools that it asks, folders
/// that it watches.
const OTHER_FILES: usize = 1024;

/// How long the server may take to let go of everything once its runs have had their time. Then the process ends all the
/// same, which is a crash to what is left.
const LETTING_GO: Duration = Duration::from_secs(7);

/// How long a server that can write nothing any more gives what is under way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

const UNWRITTEN: &str = "the server can no longer write, because the disk, the database or the writer failed (the lines \
    above say why); repair that and start the server again, which resumes the active runs";

pub(crate) async fn serve(mut config: Config, pull: bool) -> CommandResult {
    start_logging(&config)?;
    require_encryption(&config)?;
    let certificate = ServerCertificate::of(&config)?;
    if pull {
        pull_defaults(&mut config).await;
    }
    let (mut signals, reload) = (Signals::new()?, CertificateReload::new()?);
    let mut config = discover::complete(config).await;
    let limits = fit_open_files(&mut config);
    let _folder = service_setup::hold_folder(&config)?;
    let apps = service_setup::apps(&config)?;
    let endings = catalogue::ending_models(&config, &apps, catalogue::today());
    let (service, secrets) = service_setup::service_with_secrets(&config, apps)?;
    let listener = listen(&config).await?;
    load_keys(&config, &service).await?;
    service.start().await?;
    let (control, _published) = publish_control(&config, &service, &listener, certificate.as_ref())?;
    announce(&config, &service, &listener, &endings);
    let settings = settings(&config, limits, certificate.as_ref())?;
    let (stop, issuers) = (Shutdown::from(CancellationToken::new()), settings.issuers.clone());
    let serving = server::serve(listener, service.clone(), settings, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        () = reload.run(certificate, control, config.data.clone()) => {}
        () = AppWatch::new(&config, service.clone(), secrets).run() => {}
        () = load_issuer_keys(issuers) => {}
        () = service.writing_ended() => return Err(end_unwritten(&service, &stop, serving).await),
        () = signals.next() => tracing::info!("stopping: streams close now, runs have {} s to end", config.server.drain.as_secs()),
    }
    service.retire();
    stop.streams.cancel();
    let drain = async {
        let drained = async {
            let left = service.drain(config.server.drain).await;
            stop.all.cancel();
            left
        };
        let (ended, left) = tokio::join!(serving, drained);
        if left > 0 {
            tracing::info!(
                runs = left,
                "stopping with unfinished runs; the next start of the server resumes them"
            );
        }
        Ok(ended?)
    };
    let ended: CommandResult = tokio::select! {
        ended = tokio::time::timeout(config.server.drain + LETTING_GO, drain) => ended.unwrap_or_else(|_| {
            tracing::warn!("the server did not stop in time and is ended now; the next start resumes unfinished runs");
            Ok(())
        }),
        () = signals.next() => {
            tracing::info!("second stop signal: stopping at once");
            Ok(())
        }
    };
    if service.can_write() { ended } else { Err(UNWRITTEN.into()) }
}

async fn listen(config: &Config) -> CommandResult<TcpListener> {
    let address = config.listen;
    Ok(TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; choose another address with --listen or RONDO_LISTEN")
    })?)
}

/// Writes everything that a command on this machine needs to speak to the server.
fn publish_control(
    config: &Config,
    service: &Service,
    listener: &TcpListener,
    certificate: Option<&ServerCertificate>,
) -> CommandResult<(ControlFile, PublishedControl)> {
    let url = own_server::url(config, listener.local_addr()?);
    let certificates = certificate.iter().map(|certificate| certificate.fingerprint.clone()).collect();
    let control = ControlFile { url, token: service.control_token()?, certificates };
    let published = control.publish(&config.data)?;
    Ok((control, published))
}

/// Loads the keys. Without one, every caller is the one user of the server, so no other machine may reach it.
async fn load_keys(config: &Config, service: &Service) -> CommandResult {
    service.load_keys().await?;
    let proxying = &config.server.proxying;
    let open = if !config.listen.ip().is_loopback() {
        Some((config.listen.to_string(), "listen on 127.0.0.1"))
    } else if proxying.behind_proxy {
        Some(("the proxy in front of this server (server.behind_proxy)".to_owned(), "remove it"))
    } else if proxying.is_for_others() {
        Some((format!("server.public_url ({})", urls(config)), "remove it"))
    } else {
        None
    };
    let is_closed = !config.issuers.is_empty() || service.has_good_keys().await?;
    match open.filter(|_| !is_closed) {
        Some((what, instead)) => Err(format!(
            "other machines can reach {what}, and there is no key: make one with `rondo keys add USER`, \
             configure [auth.jwt.NAME], or {instead}"
        )
        .into()),
        None => Ok(()),
    }
}

fn settings(
    config: &Config,
    limits: ServerLimits,
    certificate: Option<&ServerCertificate>,
) -> CommandResult<ServerSettings> {
    let (chat_app, proxying) = (config.server.chat_app.clone(), config.server.proxying.clone());
    let tls = certificate.map(|certificate| certificate.tls.clone());
    let issuers = Some(Arc::new(JwtIssuers::new(config.issuers.clone(), Arc::new(SystemClock))?));
    Ok(ServerSettings { limits, chat_app, proxying, control_user: None, tls, issuers })
}

/// Loads the keys of all issuers, so that a wrong entry is noticed before the first user signs in. Has no end: it goes on
/// beside the server.
async fn load_issuer_keys(issuers: Option<Arc<JwtIssuers>>) {
    if let Some(issuers) = issuers {
        for (issuer, problem) in issuers.load_keys().await {
            tracing::warn!(
                "the JWTs of {issuer} cannot be checked: {problem}; look at [auth.jwt.{issuer}] in rondo.toml"
            );
        }
    }
    std::future::pending().await
}

/// Returns the addresses at which others reach the server.
fn urls(config: &Config) -> String {
    let urls: Vec<String> = config.server.proxying.public_urls.iter().map(ToString::to_string).collect();
    urls.join(", ")
}

/// Ends a server that can write nothing any more, so that its supervisor starts it again. Requests under way get their
/// answers, and runs stay as they are.
async fn end_unwritten(
    service: &Service,
    stop: &Shutdown,
    serving: impl Future<Output = std::io::Result<()>>,
) -> CommandError {
    tracing::error!("{UNWRITTEN}");
    service.retire();
    stop.streams.cancel();
    stop.all.cancel();
    let _either_way =
        tokio::time::timeout(LAST_ANSWERS, async { tokio::join!(serving, service.abandon()) }).await;
    UNWRITTEN.into()
}

/// The configured limits, with no more connections and model calls than there can be files: a server that has run out of
/// them could neither ask a model nor open its database.
fn fit_open_files(config: &mut Config) -> ServerLimits {
    let limits = config.server.limits;
    let files = raise_open_files();
    let (wanted, most) = (config.server.model_calls, limits.max_connections);
    let (calls, connections) = fitting_limits(files, wanted.all, most);
    // Half of them are enough for everybody but the largest.
    if calls < wanted.all / 2 || connections < most / 2 {
        tracing::warn!(
            "this process may open {files} files, so it serves at most {connections} connections instead of \
             {most}, and at most {calls} parallel model calls instead of {}; raise the limit with `ulimit \
             -n` or LimitNOFILE=",
            wanted.all
        );
    }
    if calls < wanted.all {
        let of_one_user = wanted.of_one_user.min(calls / 2).max(1);
        config.server.model_calls = CallShares { all: calls, of_one_user };
    }
    ServerLimits { max_connections: connections, ..limits }
}

/// The model calls and connections for which this number of open files is enough. Calls have at most a third.
fn fitting_limits(files: usize, calls: usize, connections: usize) -> (usize, usize) {
    let room = files.saturating_sub(OTHER_FILES).max(files / 2);
    let calls = calls.min(room / 3).max(1);
    (calls, connections.min(room.saturating_sub(calls)).max(1))
}

/// Lets this process open as many files as it may at most, and says how many those are.
fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = if raised.is_ok() { limit.maximum } else { limit.current };
    files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// Gets the usual models of this process, as far as no other provider does their work. A server without them still does
/// everything that needs no model.
async fn pull_defaults(config: &mut Config) {
    let has = |kind| config.pulled.iter().any(|model| model.kind == kind);
    let chat = (!config.has_remote() && !has(WeightsKind::Chat)).then_some(pull::DEFAULT_CHAT);
    let embedder =
        (config.embeddings.is_none() && !has(WeightsKind::Embedding)).then_some(pull::DEFAULT_EMBEDDER);
    for name in chat.into_iter().chain(embedder) {
        if let Err(trouble) = pull::pull(config, name, None).await {
            let smaller = match name {
                pull::DEFAULT_CHAT => format!(
                    ", or download the smallest model (98 MB) with `rondo models pull {}`",
                    pull::SMALLEST_CHAT
                ),
                _ => String::new(),
            };
            tracing::warn!(
                "the model {name} is missing: {trouble}; try again with `rondo models pull {name}`{smaller}"
            );
        }
    }
    config.take_in_pulled();
}

fn announce(config: &Config, service: &Service, listener: &TcpListener, endings: &[Retirement]) {
    let address = listener.local_addr().unwrap_or(config.listen);
    let apps: Vec<String> = service.apps().into_iter().map(|app| app.id).collect();
    if apps.is_empty() {
        tracing::warn!("there is no app in {}; make one with `rondo init NAME`", config.apps.display());
    }
    if embedded_apps::are_used(config) {
        tracing::info!(
            "there is no folder {}, so the built-in apps are served; `rondo init NAME` makes an app of your own there",
            config.apps.display()
        );
    }
    if let Some(app) = config.server.chat_app.as_ref().filter(|app| !apps.contains(app)) {
        tracing::warn!("server.chat_app is {app}, and there is no such app; /api/chat answers with 404");
    }
    match config.model.as_deref().and_then(|model| config.listing(model)) {
        Some(model) => tracing::info!(model = model.name, provider = model.provider, "the default model"),
        None => {
            let missing = config.missing_default().unwrap_or_else(|| "no model is configured".to_owned());
            tracing::warn!("{missing}, so runs will fail: {MODEL_CHOICES}");
        }
    }
    if let Some(problem) = &config.knowledge.problem {
        tracing::warn!("{problem}");
    }
    for end in endings {
        tracing::warn!("{end}");
    }
    warn_of_limits(config, service);
    if config.embeddings.is_none() && local::preferred_embedder(config).is_none() {
        tracing::info!(
            "there is no embedding model, so memories are found by their words only; `rondo models pull \
             minilm` downloads one"
        );
    }
    if !config.server.proxying.public_urls.is_empty() {
        tracing::info!("public URL: {}", urls(config));
    }
    announce_access(config, service);
    let data = config.store.as_ref().map_or_else(|| config.data.display().to_string(), ToString::to_string);
    tracing::info!(apps = apps.join(", "), data, "serving on {}://{address}", own_server::scheme(config));
}

/// Says who may use the server.
fn announce_access(config: &Config, service: &Service) {
    let issuers: Vec<&str> = config.issuers.iter().map(|issuer| issuer.name.as_str()).collect();
    match (service.has_keys(), issuers.is_empty()) {
        (_, false) => tracing::info!("requests need an API key or a JWT of {}", issuers.join(" or ")),
        (true, true) => tracing::info!("requests need an API key"),
        (false, true) => tracing::info!("requests of this machine need no key"),
    }
}

/// Says which apps have tools that their model is not offered, and whether the default model is too small to be right.
fn warn_of_limits(config: &Config, service: &Service) {
    let models = service.models();
    for app in service.apps() {
        let model = models.iter().find(|model| Some(&model.id) == app.model.as_ref());
        if let Some(note) = model.and_then(|model| model_limits::view_note(&app, model)) {
            tracing::warn!("app {}: {note}", app.id);
        }
    }
    if let Some(note) = model_limits::default_model_note(config) {
        tracing::warn!("{note}");
    }
}

fn start_logging(config: &Config) -> CommandResult {
    let level = &config.log.level;
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("log.level \"{level}\" is not a filter: {error}; write info, or info,agent=debug")
    })?;
    // This library would log texts of MCP servers, which may contain anything.
    let filter = filter.add_directive("rmcp=off".parse()?);
    let mut subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    if !std::io::stderr().is_terminal() {
        subscriber = subscriber.with_ansi(false); // colours are noise in a file
    }
    match config.log.format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
}

/// The two ways to be asked to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> CommandResult<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_between_connections_and_model_calls() {
        assert_eq!(fitting_limits(1_048_576, 8_192, 16_384), (8_192, 16_384));
        assert_eq!(fitting_limits(20_000, 8_192, 16_384), (6_325, 12_651));
        assert_eq!(
            fitting_limits(4_096, 4_096, 16_384),
            (1_024, 2_048),
            "the rest is for the database, tools and folders"
        );
        assert_eq!(fitting_limits(256, 4_096, 16_384), (42, 86));
        assert_eq!(fitting_limits(0, 4_096, 16_384), (1, 1));
    }
}
