//! A tool as an app has it: with a description or a policy of the app's own.

use std::sync::Arc;

use app::Permission;
use async_trait::async_trait;
use protocol::Effect;

use crate::{Calling, Done, Failed, Policy, Tool, ToolSpec};

pub(crate) struct AdjustedTool {
    tool: Arc<dyn Tool>,
    description: Option<String>,
    policy: Option<Policy>,
}

/// The tool, with what the app says about it.
pub(crate) fn adjusted(
    tool: Arc<dyn Tool>,
    description: Option<&str>,
    permission: Option<Permission>,
) -> Arc<dyn Tool> {
    if description.is_none() && permission.is_none() {
        return tool;
    }
    let policy = permission.map(|permission| match permission {
        Permission::Allow => Policy::Allow,
        Permission::Ask => Policy::Ask,
        Permission::Deny => Policy::Deny,
    });
    Arc::new(AdjustedTool { tool, description: description.map(str::to_owned), policy })
}

#[async_trait]
impl Tool for AdjustedTool {
    fn spec(&self) -> ToolSpec {
        let spec = self.tool.spec();
        ToolSpec { description: self.description.clone().unwrap_or(spec.description), ..spec }
    }

    fn effect(&self) -> Effect {
        self.tool.effect()
    }

    fn is_outside(&self) -> bool {
        self.tool.is_outside()
    }

    fn is_lasting(&self) -> bool {
        self.tool.is_lasting()
    }

    fn policy(&self) -> Policy {
        self.policy.unwrap_or_else(|| self.tool.policy())
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
}
