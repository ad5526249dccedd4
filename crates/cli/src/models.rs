//! `rondo models`: which models there are, whether one works, weights for this process, and a newer catalogue. Needs no
//! running server.

mod table;
mod trial;

use clap::Subcommand;
use model::MODEL_CHOICES;

use crate::config::Config;
use crate::service_setup::Embeds;
use crate::weights::{self, WeightsKind};
use crate::{CommandResult, catalogue, discover, local, print, pull, service_setup};

#[derive(Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models with their abilities and prices (US dollars per million tokens); * marks the default
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Test a model with real requests: a plain answer and, if the model supports them, a tool call and a structured
    /// answer
    ///
    /// The test makes up to three small calls, which the provider charges for. The exit code is 1 if one of them
    /// fails. The embedding model of rondo.toml can be tested, too.
    Test {
        /// The model, as `models list` shows it, or another name that a provider accepts; the default is the default
        /// model
        name: Option<String>,
        /// The message for the plain answer
        #[arg(long, value_name = "TEXT", default_value = trial::QUESTION)]
        message: String,
    },
    /// Download the weights of models into the data folder; an interrupted download continues where it stopped
    Pull {
        /// Known names (qwen2.5-coder-0.5b or qwen, qwen2.5-coder-1.5b, smollm2-135m or smollm2, minilm, bge-small,
        /// bge-base), the URL or the path of a .gguf file, or a folder with the files of an embedding model
        #[arg(value_name = "NAME|URL|FILE", required = true)]
        what: Vec<String>,
        /// Another name for the model; only for one model at a time
        #[arg(long)]
        name: Option<String>,
    },
    /// Delete the weights of a pulled model
    Remove { name: String },
    /// Install a newer catalogue of models: context windows, prices and retirement dates
    ///
    /// The new catalogue is checked first, and the changes are printed. If it is not valid, the current catalogue stays
    /// in use.
    Update {
        /// A file, or a URL that begins with https://
        #[arg(value_name = "URL|FILE")]
        from: Option<String>,
    },
}

pub(crate) async fn models(config: Config, command: ModelsCommand) -> CommandResult {
    match command {
        ModelsCommand::List { json } => {
            let config = discover::complete(config).await;
            let registry = service_setup::registry(&config)?;
            let pulled = table::pulled_table(&weights::pulled_models(&config.data));
            let report = if json {
                table::json(&registry, &config)?
            } else if registry.is_empty() {
                format!("there is no model: {MODEL_CHOICES}\n{pulled}")
            } else {
                let endings = table::ending_lines(&registry, &config, catalogue::today());
                format!("{}{pulled}{endings}", table::text(&registry, &config))
            };
            print(&report)
        }
        ModelsCommand::Pull { what, name } => pull::pull_all(&config, &what, name.as_deref()).await,
        ModelsCommand::Remove { name } => pull::remove(&config, &name),
        ModelsCommand::Update { from } => catalogue::update(&config, from.as_deref()).await,
        ModelsCommand::Test { name, message } => {
            let config = discover::complete(config).await;
            let registry = service_setup::registry(&config)?;
            let name = name
                .or_else(|| config.model.clone())
                .ok_or_else(|| format!("there is no model to test: {MODEL_CHOICES}"))?;
            if let Some((embedder, provider)) = embedder(&config, &name)? {
                trial::embed(&*embedder, provider).await?;
                return measure(&config, &name).await;
            }
            let model = registry.find(&name).ok_or_else(|| {
                let remedy =
                    if registry.is_empty() { MODEL_CHOICES } else { "`rondo models list` shows all models" };
                format!("no provider serves the model {name:?}; {remedy}")
            })?;
            let provider =
                config.provider(&model.listing.provider).ok_or("the model's provider is not configured")?;
            let failures = trial::run(&model, provider, &message).await?;
            measure(&config, &model.listing.id).await?;
            verdict(model.name(), &failures)
        }
    }
}

/// The end of a test in which the model has answered. Parts that failed make it a failure.
fn verdict(model: &str, failures: &[&str]) -> CommandResult {
    if failures.is_empty() {
        return Ok(());
    }
    let failures = failures.join(", ");
    Err(format!("{model} answers, but a part of the test failed: {failures}; the lines above say why").into())
}

/// The embedding model of this name: the configured one, or one whose weights are here.
fn embedder<'c>(config: &'c Config, name: &str) -> CommandResult<Option<Embeds<'c>>> {
    let pulled = config.pulled_model(name).filter(|model| model.kind == WeightsKind::Embedding);
    if let Some((model, provider)) = pulled.zip(config.provider(weights::PROVIDER)) {
        return Ok(Some((local::embedder(config, model)?, provider)));
    }
    Ok(service_setup::embedder(config)?.filter(|(embedder, _)| embedder.model() == name))
}

/// A model of this process is also timed, which takes a few seconds.
async fn measure(config: &Config, name: &str) -> CommandResult {
    let Some(model) = config.pulled_model(name) else { return Ok(()) };
    let speed = local::measure(config, model).await?;
    print(&format!("speed       on this machine it {speed}\n"))
}
