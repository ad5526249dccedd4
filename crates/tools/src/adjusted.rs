//! A tool as an app has it: with a description, a policy, flows or an effect of the app's own.

use std::sync::Arc;
use std::time::Duration;

use app::{FlowRule, Permission, Plausible};
use async_trait::async_trait;
use protocol::Effect;
use serde_json::Value;

use crate::{Calling, Done, Failed, Policy, Tool, ToolSpec};

/// What an app says about a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) description: Option<String>,
    pub(crate) permission: Option<Permission>,
    pub(crate) effect: Option<Effect>,
    pub(crate) flows: Vec<FlowRule>,
    pub(crate) marker: Option<String>,
    /// What arguments are expected to be; where there is any, a call that fits none needs a yes.
    pub(crate) plausible: Vec<Plausible>,
}

struct AdjustedTool {
    tool: Arc<dyn Tool>,
    changes: Changes,
}

/// The tool, with what the app says about it.
pub(crate) fn adjusted(tool: Arc<dyn Tool>, changes: Changes) -> Arc<dyn Tool> {
    if changes == Changes::default() { tool } else { Arc::new(AdjustedTool { tool, changes }) }
}

#[async_trait]
impl Tool for AdjustedTool {
    fn spec(&self) -> ToolSpec {
        let spec = self.tool.spec();
        ToolSpec { description: self.changes.description.clone().unwrap_or(spec.description), ..spec }
    }

    fn effect(&self) -> Effect {
        self.changes.effect.unwrap_or_else(|| self.tool.effect())
    }

    fn is_outside(&self) -> bool {
        self.tool.is_outside()
    }

    fn is_lasting(&self) -> bool {
        self.tool.is_lasting()
    }

    fn policy(&self) -> Policy {
        match self.changes.permission {
            Some(Permission::Allow) => Policy::Allow,
            Some(Permission::Ask) => Policy::Ask,
            Some(Permission::Deny) => Policy::Deny,
            None => self.tool.policy(),
        }
    }

    fn flows(&self) -> &[FlowRule] {
        &self.changes.flows
    }

    fn marker(&self) -> Option<&str> {
        self.changes.marker.as_deref().or_else(|| self.tool.marker())
    }

    fn patience(&self) -> Option<Duration> {
        self.tool.patience()
    }

    fn is_unusual(&self, input: &Value) -> bool {
        let plausible = &self.changes.plausible;
        let fits_none = !plausible.is_empty() && !plausible.iter().any(|plausible| plausible.fits(input));
        fits_none || self.tool.is_unusual(input)
    }

    fn exclusive(&self) -> Option<&str> {
        self.tool.exclusive()
    }

    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        self.tool.check(calling).await
    }

    async fn call(&self, calling: Calling<'_>) -> Result<Done, Failed> {
        self.tool.call(calling).await
    }

    fn undo_effect(&self) -> Option<Effect> {
        self.tool.undo_effect()
    }

    async fn undo(&self, calling: Calling<'_>, output: &Value) -> Result<Done, Failed> {
        self.tool.undo(calling, output).await
    }
}
