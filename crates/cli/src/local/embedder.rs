//! An embedding model in this process, loaded when it is first asked.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use local::embed::LocalEmbedder;
use model::{Embedder, Error};
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::weights::PulledModel;

struct Lazy {
    name: String,
    folder: PathBuf,
    threads: Option<NonZero<usize>>,
    loaded: OnceCell<LocalEmbedder>,
}

pub(crate) fn embedder(config: &Config, model: &PulledModel) -> Arc<dyn Embedder> {
    Arc::new(Lazy {
        name: model.name.clone(),
        folder: model.folder.clone(),
        threads: config.local.threads.and_then(NonZero::new),
        loaded: OnceCell::new(),
    })
}

impl Lazy {
    async fn vectors(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let (name, folder, threads) = (self.name.clone(), self.folder.clone(), self.threads);
        let load = || async move {
            let load = move || LocalEmbedder::load(&folder, name, threads);
            let reason = match tokio::task::spawn_blocking(load).await {
                Ok(Ok(model)) => return Ok(model),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "loading it was interrupted".to_owned(),
            };
            Err(Error::Rejected { status: 500, summary: format!("{} cannot be run: {reason}", self.name) })
        };
        self.loaded.get_or_try_init(load).await?.embed(texts).await
    }
}

impl Embedder for Lazy {
    fn model(&self) -> &str {
        &self.name
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        self.vectors(texts).boxed()
    }
}
