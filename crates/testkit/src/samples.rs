//! Tools for tests: each does one thing that a real tool might do to us.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use app::Permission;
use async_trait::async_trait;
use protocol::Effect;
use serde_json::{Value, json};
use tokio::sync::watch;
use tools::{
    Calling, Catalog, Failed, OfferedTool, Tool, ToolFacts, ToolOutput, ToolSpec, ToolUndo, UndoCall,
};

use crate::boundary::Fuse;
use crate::still::StandingClock;
use crate::upstream::Gate;

/// Gives its arguments back.
struct Echo;
/// Never answers.
struct Hang;
struct Panic;
/// Panics before it is called, where nothing catches it but what drives the run.
struct PanicEarly;
/// Answers with a megabyte.
struct Huge;
/// Answers with JSON that nests as deep as a parser takes.
struct Deep;
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

fn any_object() -> Value {
    json!({ "type": "object" })
}

/// A tool that takes anything, and is offered without rules of its own.
fn harmless_tool(name: &str, tool: impl Tool) -> OfferedTool {
    OfferedTool::new(spec(name, any_object()), tool, ToolFacts::default())
}

fn echo_spec() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": { "text": { "type": "string" }, "n": { "type": "integer", "minimum": 0 } },
        "required": ["text"],
        "additionalProperties": false,
    });
    spec("echo", parameters)
}

#[async_trait]
impl Tool for Echo {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        Ok(calling.input.into())
    }
}

#[async_trait]
impl Tool for Hang {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        std::future::pending().await
    }
}

#[async_trait]
impl Tool for Panic {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        panic!("a tool for tests panics")
    }
}

#[async_trait]
impl Tool for PanicEarly {
    /// The panic comes before there is a future, whose panics are caught.
    fn check<'a, 'b, 'c, 'd>(
        &'a self,
        _: &'b Calling<'c>,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failed>> + Send + 'd>>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        panic!("a tool for tests panics early")
    }

    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        Ok(json!("never").into())
    }
}

#[async_trait]
impl Tool for Huge {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        Ok(Value::from("ü".repeat(512 * 1024)).into())
    }
}

#[async_trait]
impl Tool for Deep {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        Ok(nested_arrays(127).into())
    }
}

/// Arrays within arrays, of `levels` levels.
pub fn nested_arrays(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

/// The text of that, which no parser need take.
pub fn nested_text(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[async_trait]
impl Tool for Refuse {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        Err(Failed::new("not_today", "the tool does not want to"))
    }
}

#[async_trait]
impl Tool for Meet {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        let _guest = Guest::of(self);
        self.here.subscribe().wait_for(|(_, met)| *met).await.expect("the sender is ours");
        Ok(json!("met").into())
    }
}

#[async_trait]
impl Tool for Gated {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        match calling.stop.run_until_cancelled(self.gate.pass()).await {
            Some(()) => Ok(json!("passed").into()),
            None => Err(Failed::new("stopped", "the tool was told to stop")),
        }
    }
}

/// Does something beyond this server: it notes that it was reached, then waits for the gate.
#[derive(Clone)]
struct Act {
    name: &'static str,
    gate: Gate,
    arrivals: Arrivals,
    /// The fuse that ends the server, if it dies.
    fuse: Option<Fuse>,
}

/// A call that reached the world outside.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolArrival {
    pub tool: String,
    pub key: String,
    pub input: Value,
    /// Whether it was to undo an earlier call.
    pub undo: bool,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<Mutex<Vec<ToolArrival>>>);

impl Arrivals {
    /// The tool's name, and the key that came with it.
    pub fn all(&self) -> Vec<(String, String)> {
        self.list().into_iter().map(|arrival| (arrival.tool, arrival.key)).collect()
    }

    /// Returns a copy that has all of this, and goes its own way from here on.
    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.list())))
    }

    pub fn list(&self) -> Vec<ToolArrival> {
        self.0.lock().expect("no test panics here").clone()
    }
}

impl Act {
    /// Arrives, and is done when the gate opens. A server that has died neither sends anything nor hears of it.
    async fn act(&self, calling: Calling<'_>, undo: bool) -> Result<ToolOutput, Failed> {
        let goes_on = |place| self.fuse.as_ref().is_none_or(|fuse| fuse.pass(place));
        let died = || Failed::new("died", "the server is no more");
        if self.fuse.as_ref().is_some_and(Fuse::is_blown) {
            return Err(died());
        }
        let arrival =
            ToolArrival { tool: self.name.to_owned(), key: calling.key(), input: calling.input, undo };
        self.arrivals.0.lock().expect("no test panics here").push(arrival);
        if !goes_on("as a tool is reached") {
            return Err(died());
        }
        self.gate.pass().await;
        if goes_on("after a tool has replied") { Ok(json!("done").into()) } else { Err(died()) }
    }
}

#[async_trait]
impl Tool for Act {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        self.act(calling, false).await
    }
}

#[async_trait]
impl UndoCall for Act {
    async fn undo(&self, calling: Calling<'_>, _: &Value) -> Result<ToolOutput, Failed> {
        self.act(calling, true).await
    }

    async fn describe(&self, calling: Calling<'_>, _: &Value) -> Result<Value, Failed> {
        Ok(json!({ "method": "UNDO", "url": self.name, "body": calling.input }))
    }
}

/// Does nothing, but needs approval for it.
struct Risky;

#[async_trait]
impl Tool for Risky {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        Ok(json!({ "did": calling.input }).into())
    }
}

/// All of them. `meet` needs `width` calls at once.
pub(crate) fn catalog((width, fuse): (usize, Option<&Fuse>), gate: &Gate, arrivals: &Arrivals) -> Catalog {
    let mut catalog = Catalog::builtin(Arc::new(StandingClock));
    let acts = [
        ("act_read", Effect::Read, Permission::Allow, None),
        ("act_idempotent", Effect::Idempotent, Permission::Allow, None),
        ("act_reversible", Effect::Reversible, Permission::Allow, None),
        ("act_irreversible", Effect::Irreversible, Permission::Allow, None),
        ("act_asked", Effect::Irreversible, Permission::Ask, None),
        ("act_undone", Effect::Reversible, Permission::Allow, Some(Effect::Idempotent)),
        ("act_undone_once", Effect::Reversible, Permission::Allow, Some(Effect::Irreversible)),
    ];
    for (name, effect, permission, undo) in acts {
        let (gate, arrivals, fuse) = (gate.clone(), arrivals.clone(), fuse.cloned());
        let act = Act { name, gate, arrivals, fuse };
        let facts = ToolFacts { permission: Some(permission), ..ToolFacts::external(effect) };
        let undo = undo.map(|effect| ToolUndo { effect, call: Arc::new(act.clone()) });
        let mut tool = OfferedTool::new(spec(name, any_object()), act, facts);
        tool.undo = undo;
        catalog.add(tool);
    }
    let risky = ToolFacts { effect: Effect::Irreversible, ..ToolFacts::default() };
    catalog.add(OfferedTool::new(spec("risky", any_object()), Risky, risky));
    let meet = Meet { width, here: watch::Sender::default() };
    for tool in [
        OfferedTool::new(echo_spec(), Echo, ToolFacts::default()),
        harmless_tool("hang", Hang),
        harmless_tool("panic", Panic),
        harmless_tool("panic_early", PanicEarly),
        harmless_tool("huge", Huge),
        harmless_tool("deep", Deep),
        harmless_tool("refuse", Refuse),
        harmless_tool("meet", meet),
        harmless_tool("gated", Gated { gate: gate.clone() }),
    ] {
        catalog.add(tool);
    }
    catalog
}
