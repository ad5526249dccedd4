//! An embedding model in this process, loaded when it is first asked.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use local::embed::LocalEmbedder;
use model::{Embedder, Error};
use tokio::sync::OnceCell;

use super::load;
use crate::config::Config;
use crate::weights::PulledModel;

struct Lazy {
    name: String,
    folder: PathBuf,
    threads: Option<NonZero<usize>>,
    loaded: OnceCell<LocalEmbedder>,
}

/// Fails only in a build without models of its own.
pub(crate) fn embedder(config: &Config, model: &PulledModel) -> Result<Arc<dyn Embedder>, Error> {
    Ok(Arc::new(Lazy {
        name: model.name.clone(),
        folder: model.folder.clone(),
        threads: config.local.threads.and_then(NonZero::new),
        loaded: OnceCell::new(),
    }))
}

impl Lazy {
    async fn vectors(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let (name, folder, threads) = (self.name.clone(), self.folder.clone(), self.threads);
        let load = || load(&self.name, move || LocalEmbedder::load(&folder, name, threads));
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
