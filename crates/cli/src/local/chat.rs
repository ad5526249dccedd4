//! Language models in this process. One is loaded when it is first asked, and let go when others take its place.

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

/// The models of a data folder behind one door; a request's model is the name of its folder.
struct Shelf {
    files: BTreeMap<String, PathBuf>,
    options: LocalChatOptions,
    /// How many are kept.
    places: usize,
    /// Models in memory or on their way there; the one that was asked last stands last.
    loaded: Mutex<Vec<(String, Place)>>,
}

type Place = Arc<OnceCell<LocalChat>>;

/// Fails only in a build without models of its own.
pub(crate) fn chat(config: &Config) -> Result<Arc<dyn ChatModel>, Error> {
    let models = config.pulled.iter().filter(|model| model.kind == WeightsKind::Chat);
    Ok(Arc::new(Shelf {
        files: models.map(|model| (model.name.clone(), model.folder.join(CHAT_FILE))).collect(),
        options: options(&config.local),
        places: config.local.loaded,
        loaded: Mutex::default(),
    }))
}

pub(super) fn options(local: &Local) -> LocalChatOptions {
    let Local { threads, context, answers, loaded: _ } = *local;
    LocalChatOptions { threads, context: context as usize, sequences: answers, ..LocalChatOptions::default() }
}

/// Tokens that the model in this file was trained with.
pub(crate) fn trained_context(file: &Path) -> Option<u32> {
    let file = Gguf::open(file).ok()?;
    file.integer(&format!("{}.context_length", file.text("general.architecture")?))
}

impl Shelf {
    /// The place of a model, which may still be empty. Whoever has to make room goes when its last answer is done.
    fn place(&self, name: &str) -> Place {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let known = loaded.iter().position(|(other, _)| other == name);
        let entry = known.map_or_else(|| (name.to_owned(), Place::default()), |at| loaded.remove(at));
        let place = Arc::clone(&entry.1);
        loaded.push(entry);
        let surplus = loaded.len().saturating_sub(self.places);
        loaded.drain(..surplus);
        place
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let name = &request.model;
        let Some(file) = self.files.get(name) else {
            let summary =
                format!("there are no weights named {name}; download them with `rondo models pull`");
            return Err(Error::Rejected { status: 404, summary });
        };
        let place = self.place(name);
        let (file, options) = (file.clone(), self.options);
        let load = || load(name, move || LocalChat::load(&file, &options));
        place.get_or_try_init(load).await?.stream(request).await
    }
}

impl ChatModel for Shelf {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }
}
