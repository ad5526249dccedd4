//! `rondo serve`: from configuration to a listening server, and from a signal to a clean end.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::MODEL_CHOICES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Limits, Settings, Shutdown};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};
use crate::control::Control;
use crate::pull::{self, Kind};
use crate::watch::Watch;
use crate::{Trouble, assemble, discover, local};

/// Files that the server has open besides its connections, at most: its database, models and tools that it asks, folders
/// that it watches.
const OTHER_FILES: usize = 1024;

pub(crate) async fn serve(mut config: Config, pull: bool) -> Result<(), Trouble> {
    start_logging(&config)?;
    if pull {
        pull_defaults(&mut config).await;
    }
    #[cfg(feature = "planted")]
    plant()?;
    let mut signals = Signals::new()?;
    let config = discover::complete(config).await;
    let (engine, secrets) = assemble::served(&config)?;
    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        format!(
            "cannot listen on {}: {error}; choose another address with --listen or RONDO_LISTEN",
            config.listen
        )
    })?;
    engine.load_keys().await?;
    if !config.listen.ip().is_loopback() && !engine.has_good_keys() {
        return Err(format!(
            "{} can be reached from other machines, and there is no key: make one with `rondo keys add USER`, or listen \
             on 127.0.0.1",
            config.listen
        )
        .into());
    }
    engine.start().await?;
    let control = Control { url: reach(&listener, &config)?, token: engine.control_token()? };
    let _published = control.publish(&config.data)?;
    announce(&config, &engine, &listener);
    let stop = Shutdown::from(CancellationToken::new());
    let settings = Settings { limits: limits(&config), chat_app: config.server.chat_app.clone() };
    let serving = server::serve(listener, engine.clone(), settings, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        () = Watch::new(&config, engine.clone(), secrets).run() => {}
        () = signals.next() => tracing::info!("stopping: streams close now, runs have {} s to end", config.server.drain.as_secs()),
    }
    engine.retire();
    stop.streams.cancel();
    let drain = async {
        let drained = async {
            let left = engine.drain(config.server.drain).await;
            stop.all.cancel();
            left
        };
        let (ended, left) = tokio::join!(serving, drained);
        if left > 0 {
            tracing::info!(runs = left, "handing back runs; the next start takes them up");
        }
        Ok(ended?)
    };
    tokio::select! {
        ended = drain => ended,
        () = signals.next() => {
            tracing::info!("asked twice: stopping at once");
            Ok(())
        }
    }
}

/// Plants the bug that the crash harness asks for, and says so.
#[cfg(feature = "planted")]
fn plant() -> Result<(), Trouble> {
    use protocol::planted::Bug;
    if let Some(name) = crate::config::process_environment("RONDO_PLANTED") {
        let bug = Bug::parse(&name).ok_or_else(|| format!("RONDO_PLANTED: there is no bug {name:?}"))?;
        bug.plant();
        tracing::warn!(bug = name, "a bug is planted");
    }
    Ok(())
}

/// The configured limits, with no more connections than there can be files: a server that has run out of them could
/// neither ask a model nor open its database.
fn limits(config: &Config) -> Limits {
    let limits = assemble::limits(config);
    let (files, most) = (raise_open_files(), limits.max_connections);
    let room = files.saturating_sub(OTHER_FILES).max(files / 2);
    if room < most {
        tracing::warn!(
            "this process may open {files} files, so it serves {room} connections at once instead of {most}; raise the \
             limit with `ulimit -n` or LimitNOFILE="
        );
    }
    Limits { max_connections: most.min(room), ..limits }
}

/// Lets this process open as many files as it may at most, and says how many those are.
fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = if raised.is_ok() { limit.maximum } else { limit.current };
    files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// Gets the usual models of this process, as far as nobody else does their work. A server without them still does
/// everything that needs no model.
async fn pull_defaults(config: &mut Config) {
    let has = |kind| config.pulled.iter().any(|model| model.kind == kind);
    let chat = (!config.has_remote() && !has(Kind::Chat)).then_some(pull::DEFAULT_CHAT);
    let embedder = (config.embeddings.is_none() && !has(Kind::Embedding)).then_some(pull::DEFAULT_EMBEDDER);
    for name in chat.into_iter().chain(embedder) {
        if let Err(trouble) = pull::pull(config, name, None).await {
            tracing::warn!("{name} is not there: {trouble}; try again with `rondo models pull {name}`");
        }
    }
    config.take_in_pulled();
}

/// Where this machine reaches the server, whatever it listens on.
fn reach(listener: &TcpListener, config: &Config) -> Result<String, Trouble> {
    let mut address = listener.local_addr()?;
    if address.ip().is_unspecified() {
        let loopback: IpAddr =
            if config.listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    Ok(format!("http://{address}"))
}

fn announce(config: &Config, engine: &engine::Engine, listener: &TcpListener) {
    let address = listener.local_addr().unwrap_or(config.listen);
    let apps: Vec<String> = engine.apps().into_iter().map(|app| app.id).collect();
    if apps.is_empty() {
        tracing::warn!(
            "there is no app in {}; add a folder with app.toml and instructions.md",
            config.apps.display()
        );
    }
    if let Some(app) = config.server.chat_app.as_ref().filter(|app| !apps.contains(app)) {
        tracing::warn!("server.chat_app is {app}, and there is no such app; /api/chat answers with 404");
    }
    match config.model.as_deref().and_then(|model| config.listing(model)) {
        Some(model) => tracing::info!(model = model.name, provider = model.provider, "the default model"),
        None => tracing::warn!("no model is configured, so runs will fail: {MODEL_CHOICES}"),
    }
    if config.embeddings.is_none() && local::preferred_embedder(config).is_none() {
        tracing::info!(
            "no embedding model, so memories are found by their words alone; `rondo models pull minilm` gets one"
        );
    }
    tracing::info!(apps = apps.join(", "), data = %config.data.display(), "serving on http://{address}");
}

fn start_logging(config: &Config) -> Result<(), Trouble> {
    let level = &config.log.level;
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("log.level \"{level}\" is not a filter: {error}; write info, or info,engine=debug")
    })?;
    // It would repeat what servers of tools say, which may be anything.
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
    fn new() -> Result<Self, Trouble> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
