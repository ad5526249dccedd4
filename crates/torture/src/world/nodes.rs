//! The nodes of a trial: server processes with a data folder, a port and a log each, which share one database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;

use super::{Cast, path};
use crate::database_link::DatabaseLink;
use crate::model::ScriptedModel;
use crate::postgres::TrialPostgres;
use crate::server::{Launch, STORE, ServerProcess, free_port};
use crate::stage::TortureError;

/// By how much the clock of one node is ahead, as libfaketime reads it.
const AHEAD: &str = "+3600s";

/// One node, whether it runs or not.
pub(crate) struct TrialNode {
    pub(crate) number: usize,
    pub(crate) process: ServerProcess,
    /// Its way to PostgreSQL, if it can be cut.
    pub(crate) link: Option<Arc<DatabaseLink>>,
}

/// How a node is started.
pub(super) struct NodeSetup {
    pub(super) data: PathBuf,
    pub(super) launch: Launch,
    pub(super) link: Option<Arc<DatabaseLink>>,
}

/// The surroundings that all nodes have in common.
pub(super) struct Surroundings<'a> {
    pub(super) out: &'a Path,
    pub(super) apps: &'a Path,
    pub(super) binary: PathBuf,
    pub(super) cast: &'a Cast,
    pub(super) model: &'a ScriptedModel,
    /// The address of the tools.
    pub(super) tools: String,
    pub(super) postgres: Option<&'a TrialPostgres>,
    /// How many nodes there are.
    pub(super) nodes: usize,
    /// The library that puts the clock of the last node ahead.
    pub(super) faketime: Option<&'a Path>,
    /// The server of an older version.
    pub(super) older: Option<PathBuf>,
}

impl Surroundings<'_> {
    /// The data folder of a node.
    pub(super) fn data(&self, node: usize) -> PathBuf {
        self.out.join(self.name("data", node, ""))
    }

    /// One node alone needs no number.
    fn name(&self, what: &str, node: usize, ending: &str) -> String {
        if self.nodes == 1 { format!("{what}{ending}") } else { format!("{what}-{node}{ending}") }
    }

    pub(super) fn set_up(&self, node: usize, rng: &mut Rng) -> Result<NodeSetup, TortureError> {
        let (port, data) = (free_port(rng)?, self.data(node));
        std::fs::create_dir_all(&data)?;
        let link = match self.postgres {
            Some(postgres) if self.nodes > 1 => Some(Arc::new(DatabaseLink::open(&postgres.folder())?)),
            Some(_) | None => None,
        };
        let mut environment = self.environment(node, port, &data)?;
        if let Some(postgres) = self.postgres {
            let url = link.as_ref().map_or_else(|| postgres.url.clone(), |link| link.url());
            environment.push((STORE.to_owned(), url));
        }
        let launch = Launch {
            binary: self.binary.clone(),
            older: self.older.clone(),
            folder: self.out.to_path_buf(),
            url: format!("http://127.0.0.1:{port}"),
            environment,
            log: self.out.join(self.name("server", node, ".log")),
        };
        Ok(NodeSetup { data, launch, link })
    }

    fn environment(
        &self,
        node: usize,
        port: u16,
        data: &Path,
    ) -> Result<Vec<(String, String)>, TortureError> {
        let mut variables = vec![
            ("RONDO_LISTEN", format!("127.0.0.1:{port}")),
            ("RONDO_DATA", path(data)?),
            ("RONDO_APPS", path(self.apps)?),
            ("RONDO_DISCOVER", "false".to_owned()),
            ("RONDO_EGRESS_ALLOW", self.tools.clone()),
            ("RONDO_SECRET_TOOLS", self.cast.tool_key.clone()),
            ("OPENAI_BASE_URL", self.model.base_url(node)),
            ("OPENAI_API_KEY", self.cast.model_key.clone()),
        ];
        if self.nodes > 1 {
            variables.push(("RONDO_VAULT_KEY", self.cast.vault_key.clone()));
        }
        if let Some(library) = self.faketime.filter(|_| self.is_ahead(node)) {
            variables.push(("LD_PRELOAD", path(library)?));
            variables.push(("FAKETIME", AHEAD.to_owned()));
            // Waits and timeouts are as long as ever.
            variables.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()));
        }
        Ok(variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Whether the clock of this node is ahead of the others, if that can be done.
    fn is_ahead(&self, node: usize) -> bool {
        self.nodes > 1 && node + 1 == self.nodes
    }
}
