//! The build without models of its own. No model is found in it, so none of these functions is called.

use std::path::Path;
use std::sync::Arc;

use model::{ChatModel, Embedder, Error};

use crate::CommandResult;
use crate::config::Config;
use crate::weights::PulledModel;

fn no_local_models() -> Error {
    Error::Unavailable { reason: "this rondo was built without the feature `local`".into(), after: None }
}

pub(crate) fn chat(_: &Config) -> Result<Arc<dyn ChatModel>, Error> {
    Err(no_local_models())
}

pub(crate) fn embedder(_: &Config, _: &PulledModel) -> Result<Arc<dyn Embedder>, Error> {
    Err(no_local_models())
}

pub(crate) fn trained_context(_: &Path) -> Option<u32> {
    None
}

pub(crate) fn speed(_: &PulledModel) -> Option<String> {
    None
}

/// Weights can be fetched for another build.
pub(crate) async fn measure(_: &Config, _: &PulledModel) -> CommandResult<String> {
    Err(no_local_models().into())
}
