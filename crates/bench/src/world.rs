//! A service over a real database, with one app and a model in this process.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory::recall::Recall;
use model::{Capabilities, ChatModel, ModelProvider, ModelRegistry, Prices, ProviderKind, ProviderWire};
use protocol::{SystemClock, TimeOrderedIds};
use service::{AgentParts, Bus, CallShares, DEFAULT_DOCUMENT_BYTES, InProcess, Service, ServiceParts};
use store::Store;
use store::{Coalesce, StoreOptions};
use tools::Catalog;

/// The app is `talk`.
pub(crate) fn service(
    folder: &Path,
    chat: Arc<dyn ChatModel>,
    coalesce: Coalesce,
) -> Result<Service, Box<dyn Error>> {
    let app = folder.join("apps/talk");
    std::fs::create_dir_all(&app)?;
    std::fs::write(app.join("app.toml"), "name = \"Talk\"\n[limits]\nmax_running = 1000\n")?;
    std::fs::write(app.join("instructions.md"), "Talk.\n")?;
    let bus = Arc::new(Bus::default());
    let clock = Arc::new(SystemClock);
    let options = StoreOptions { coalesce, ..StoreOptions::default() };
    let store = Store::open_sqlite(&folder.join("data"), clock.clone(), bus.clone(), options)?;
    let provider = ModelProvider {
        name: "bench".into(),
        wire: Some(ProviderWire::Chat),
        kind: ProviderKind::Cloud,
        chat,
        open: true,
        known: false,
        capabilities: Capabilities::of_kind(ProviderKind::Cloud),
        prices: Prices::Unknown,
    };

    let agent = AgentParts {
        recall: Arc::new(Recall::new(store.clone(), None)),
        store,
        bus,
        apps: app::load_all(&folder.join("apps")).map_err(|problem| problem.to_string())?,
        app_revisions: None,
        tools: Catalog::default(),
        models: ModelRegistry::new(vec![provider], Vec::new(), Some("talker".into())),
        clock,
        ids: Arc::new(TimeOrderedIds),
        retention: Duration::from_hours(24),
        model_calls: CallShares::default(),
        undo_retention: Duration::from_hours(24),
    };
    let parts = ServiceParts {
        agent,
        vault_key: [0; 32],
        extractor: Arc::new(InProcess),
        document_bytes: DEFAULT_DOCUMENT_BYTES,
        max_running: 1000,
    };
    Ok(Service::new(parts).map_err(|problem| problem.to_string())?)
}
