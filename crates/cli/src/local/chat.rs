//! Language models in this process. A model is loaded at its first request, and removed when another model needs its slot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use local::chat::{LocalChat, LocalChatOptions};
use local::gguf::Gguf;
use model::{ChatModel, Error, ModelRequest, PieceStream};
use tokio::sync::OnceCell;

use super::load;
use crate::config::{Config, Local};
use crate::weights::{CHAT_FILE, WeightsKind};

/// The models of a data folder behind one client; a request's model is the name of its folder.
struct PulledChatModels {
    files: BTreeMap<String, PathBuf>,
    options: LocalChatOptions,
    /// How many are kept.
    slots: usize,
    /// Models in memory or on their way there; the one that was asked last stands last.
    loaded: Mutex<Vec<(String, ModelSlot)>>,
}

type ModelSlot = Arc<OnceCell<LocalChat>>;

/// Fails only in a build without models of its own.
pub(crate) fn chat(config: &Config) -> Result<Arc<dyn ChatModel>, Error> {
    let models = config.pulled.iter().filter(|model| model.kind == WeightsKind::Chat);
    Ok(Arc::new(PulledChatModels {
        files: models.map(|model| (model.name.clone(), model.folder.join(CHAT_FILE))).collect(),
        options: options(&config.local),
        slots: config.local.loaded,
        loaded: Mutex::default(),
    }))
}

pub(super) fn options(local: &Local) -> LocalChatOptions {
    let Local { threads, context, answers, loaded: _, answer_tokens } = *local;
    LocalChatOptions {
        threads,
        context: context as usize,
        sequences: answers,
        answer: answer_tokens as usize,
        ..LocalChatOptions::default()
    }
}

/// Tokens that the model in this file was trained with.
pub(crate) fn trained_context(file: &Path) -> Option<u32> {
    let file = Gguf::open(file).ok()?;
    file.integer(&format!("{}.context_length", file.text("general.architecture")?))
}

impl PulledChatModels {
    /// The slot of a model, which may still be empty. A model that has to make room ends with its last answer.
    fn slot(&self, name: &str) -> ModelSlot {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let known = loaded.iter().position(|(other, _)| other == name);
        let entry = known.map_or_else(|| (name.to_owned(), ModelSlot::default()), |at| loaded.remove(at));
        let slot = Arc::clone(&entry.1);
        loaded.push(entry);
        let surplus = loaded.len().saturating_sub(self.slots);
        loaded.drain(..surplus);
        slot
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let name = &request.model;
        let Some(file) = self.files.get(name) else {
            let summary =
                format!("there are no weights named {name}; download them with `rondo models pull`");
            return Err(Error::Rejected { status: 404, summary });
        };
        let slot = self.slot(name);
        let (file, options) = (file.clone(), self.options);
        let load = || load(name, move || LocalChat::load(&file, &options));
        slot.get_or_try_init(load).await?.stream(request).await
    }
}

impl ChatModel for PulledChatModels {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }
}
