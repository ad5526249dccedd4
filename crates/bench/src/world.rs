//! An engine over a real database, with one app and a model in this process.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Bus, CallShares, DEFAULT_DOCUMENT_BYTES, Engine, InProcess, Parts};
use memory::recall::Recall;
use model::{Capabilities, ChatModel, Kind, Prices, Provider, Registry, Wire};
use protocol::{SystemClock, TimeOrderedIds};
use store::Store;
use store::sqlite::{Coalesce, SqliteOptions};
use tools::Catalog;

/// The app is `talk`.
pub(crate) fn engine(
    folder: &Path,
    chat: Arc<dyn ChatModel>,
    coalesce: Coalesce,
) -> Result<Engine, Box<dyn Error>> {
    let app = folder.join("apps/talk");
    std::fs::create_dir_all(&app)?;
    std::fs::write(app.join("app.toml"), "name = \"Talk\"\n[limits]\nmax_running = 1000\n")?;
    std::fs::write(app.join("instructions.md"), "Talk.\n")?;
    let bus = Arc::new(Bus::default());
    let clock = Arc::new(SystemClock);
    let options = SqliteOptions { coalesce, ..SqliteOptions::default() };
    let store = Store::open_sqlite_with(&folder.join("data"), clock.clone(), bus.clone(), options)?;
    let provider = Provider {
        name: "bench".into(),
        wire: Some(Wire::Chat),
        kind: Kind::Cloud,
        chat,
        open: true,
        known: false,
        capabilities: Capabilities::of_kind(Kind::Cloud),
        prices: Prices::Unknown,
    };
    let parts = Parts {
        recall: Arc::new(Recall::new(store.clone(), None)),
        store,
        bus,
        apps: app::load_all(&folder.join("apps")).map_err(|problem| problem.to_string())?,
        tools: Catalog::default(),
        vault_key: [0; 32],
        models: Registry::new(vec![provider], Vec::new(), Some("talker".into())),
        extractor: Arc::new(InProcess),
        clock,
        ids: Arc::new(TimeOrderedIds),
        retention: Duration::from_hours(24),
        model_calls: CallShares::default(),
        document_bytes: DEFAULT_DOCUMENT_BYTES,
        undo_retention: Duration::from_hours(24),
    };
    Ok(Engine::new(parts).map_err(|problem| problem.to_string())?)
}
