//! Tools for tests: each does one thing that a real tool might do to us.

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::{Catalog, Failed, Tool, ToolSpec};

use crate::upstream::Gate;

/// Gives its arguments back.
struct Echo;
/// Never answers.
struct Hang;
struct Panic;
/// Answers with a megabyte.
struct Huge;
struct Refuse;
/// Answers only when `width` calls are under way at once.
struct Meet {
    width: usize,
    /// How many are here, and whether enough ever were.
    here: watch::Sender<(usize, bool)>,
}

/// One that has come; it leaves when its call is over.
struct Guest<'a>(&'a Meet);

impl<'a> Guest<'a> {
    fn of(meet: &'a Meet) -> Self {
        meet.here.send_modify(|(count, met)| {
            *count += 1;
            *met |= *count >= meet.width;
        });
        Self(meet)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.0.here.send_modify(|(count, _)| *count -= 1);
    }
}
/// Answers when the test opens the gate.
struct Gated {
    gate: Gate,
}

fn spec(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: format!("a tool for tests: {name}"), parameters }
}

fn anything() -> Value {
    json!({ "type": "object" })
}

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "n": { "type": "integer", "minimum": 0 } },
            "required": ["text"],
            "additionalProperties": false,
        });
        spec("echo", parameters)
    }

    async fn call(&self, input: Value, _: &CancellationToken) -> Result<Value, Failed> {
        Ok(input)
    }
}

#[async_trait]
impl Tool for Hang {
    fn spec(&self) -> ToolSpec {
        spec("hang", anything())
    }

    async fn call(&self, _: Value, _: &CancellationToken) -> Result<Value, Failed> {
        std::future::pending().await
    }
}

#[async_trait]
impl Tool for Panic {
    fn spec(&self) -> ToolSpec {
        spec("panic", anything())
    }

    async fn call(&self, _: Value, _: &CancellationToken) -> Result<Value, Failed> {
        panic!("a tool for tests panics")
    }
}

#[async_trait]
impl Tool for Huge {
    fn spec(&self) -> ToolSpec {
        spec("huge", anything())
    }

    async fn call(&self, _: Value, _: &CancellationToken) -> Result<Value, Failed> {
        Ok(Value::from("ü".repeat(512 * 1024)))
    }
}

#[async_trait]
impl Tool for Refuse {
    fn spec(&self) -> ToolSpec {
        spec("refuse", anything())
    }

    async fn call(&self, _: Value, _: &CancellationToken) -> Result<Value, Failed> {
        Err(Failed::new("not_today", "the tool does not want to"))
    }
}

#[async_trait]
impl Tool for Meet {
    fn spec(&self) -> ToolSpec {
        spec("meet", anything())
    }

    async fn call(&self, _: Value, _: &CancellationToken) -> Result<Value, Failed> {
        let _guest = Guest::of(self);
        self.here.subscribe().wait_for(|(_, met)| *met).await.expect("the sender is ours");
        Ok(json!("met"))
    }
}

#[async_trait]
impl Tool for Gated {
    fn spec(&self) -> ToolSpec {
        spec("gated", anything())
    }

    async fn call(&self, _: Value, stop: &CancellationToken) -> Result<Value, Failed> {
        match stop.run_until_cancelled(self.gate.pass()).await {
            Some(()) => Ok(json!("passed")),
            None => Err(Failed::new("stopped", "the tool was told to stop")),
        }
    }
}

/// All of them. `meet` needs `width` calls at once.
pub(crate) fn catalog(width: usize, gate: &Gate) -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add(Echo);
    catalog.add(Hang);
    catalog.add(Panic);
    catalog.add(Huge);
    catalog.add(Refuse);
    catalog.add(Meet { width, here: watch::Sender::default() });
    catalog.add(Gated { gate: gate.clone() });
    catalog
}
