//! The build without models of its own. No model is found in it, so none of these functions is called.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use model::{ChatModel, Embedder, Error, ModelRequest, PieceStream};

use crate::CommandResult;
use crate::config::Config;
use crate::weights::PulledModel;

struct Absent;

fn refused() -> Error {
    Error::Unavailable { reason: "this rondo was built without the feature `local`".into(), after: None }
}

impl ChatModel for Absent {
    fn stream<'a>(&'a self, _: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        ready(Err(refused())).boxed()
    }
}

impl Embedder for Absent {
    fn model(&self) -> &str {
        crate::weights::PROVIDER
    }

    fn embed<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        ready(Err(refused())).boxed()
    }
}

pub(crate) fn chat(_: &Config) -> Arc<dyn ChatModel> {
    Arc::new(Absent)
}

pub(crate) fn embedder(_: &Config, _: &PulledModel) -> Arc<dyn Embedder> {
    Arc::new(Absent)
}

pub(crate) fn trained_context(_: &Path) -> Option<u32> {
    None
}

pub(crate) fn speed(_: &PulledModel) -> Option<String> {
    None
}

/// Weights can be fetched for another build.
pub(crate) async fn measure(_: &Config, _: &PulledModel) -> CommandResult<String> {
    Err(refused().into())
}
