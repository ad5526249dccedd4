//! `rondo models test`: up to three small real calls, and what came of them.

use std::sync::Arc;

use model::{
    AnswerFormat, Embedder, Error, Model, ModelRequest, PromptMessage, Schema, SchemaSupport, ToolSpec,
};
use protocol::{Finish, Settings, Usage};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::ProviderConfig;
use crate::model_answer::{ModelAnswer, ask_model};
use crate::{CommandResult, print};

pub(super) const QUESTION: &str = "Say hello in one short sentence.";

/// The longest answer that is asked for, with room for models that think first.
const MAX_TOKENS: u32 = 2048;
/// As much of an answer as is shown, in characters.
const SHOWN: usize = 200;
/// Characters of a token, where the provider does not count.
const CHARACTERS_PER_TOKEN: u64 = 4;

const TOOL: &str = "look_up_weather";

/// Tries a chat model, and gives back the parts of the trial that have failed. A model that does not answer at all is an
/// error.
pub(super) async fn run(
    model: &Model,
    provider: &ProviderConfig,
    message: &str,
) -> CommandResult<Vec<&'static str>> {
    let name = model.name();
    let wire = provider.wire.map_or_else(String::new, |wire| format!(", wire {}", wire.name()));
    print(&format!("{name}: {} at {}{wire}\n", provider.name, provider.base_url))?;
    let heard = match ask_model(&*model.chat, &ask(model, message)).await {
        Ok(heard) => heard,
        Err(error) => {
            let remedy = remedy(&error, name, provider);
            return Err(format!("{error} ({}); {remedy}", error.code()).into());
        }
    };
    let mut usage = model.with_cost(heard.usage);
    print(&plain_report(&heard, model.capabilities().streaming))?;
    let mut failures = Vec::new();
    let can = model.capabilities();
    if can.tools {
        let tools: Arc<[ToolSpec]> = Arc::new([weather()]);
        let question = "What is the weather in Paris? Use the tool.";
        let heard = ask_model(&*model.chat, &ModelRequest { tools, ..ask(model, question) }).await;
        let verdict = judge(heard, &mut usage, model, check_call);
        print(&report("tool call", &verdict))?;
        failures.extend(verdict.is_err().then_some("tool call"));
    } else {
        print("tool call   not tried: the model is not listed with tools\n")?;
    }
    if can.structured == SchemaSupport::Prompt {
        print("structured  not tried: this model gets a schema only as text in the prompt\n")?;
    } else {
        let format = AnswerFormat::Schema(Arc::new(schema()));
        let heard =
            ask_model(&*model.chat, &ModelRequest { format, ..ask(model, "What is 6 times 7?") }).await;
        let verdict = judge(heard, &mut usage, model, check_structured);
        print(&report("structured", &verdict))?;
        failures.extend(verdict.is_err().then_some("structured"));
    }
    print(&total(&usage, model))?;
    Ok(failures)
}

fn ask(model: &Model, question: &str) -> ModelRequest {
    let settings = Settings { max_tokens: Some(MAX_TOKENS), ..Settings::default() };
    model.request(
        "You are a helpful assistant.".into(),
        vec![PromptMessage::User(question.into())],
        &settings,
    )
}

/// Tries an embedding model.
pub(super) async fn embed(embedder: &dyn Embedder, provider: &ProviderConfig) -> CommandResult {
    let begun = Instant::now();
    let vectors = embedder.embed(&[QUESTION.to_owned()]).await.map_err(|error| {
        let remedy = remedy(&error, embedder.model(), provider);
        format!("{error} ({}); {remedy}", error.code())
    })?;
    let dimensions = vectors.first().map_or(0, Vec::len);
    let took = begun.elapsed().as_millis();
    print(&format!(
        "{}: {} at {}\nembedding   ok: {dimensions} dimensions, {took} ms\n",
        embedder.model(),
        provider.name,
        provider.base_url
    ))
}

fn plain_report(heard: &ModelAnswer, streaming: bool) -> String {
    let counted = heard.usage.output_tokens;
    let estimated = heard.text.chars().count() as u64 / CHARACTERS_PER_TOKEN + 1;
    let (tokens, about) = if counted > 0 { (counted, "") } else { (estimated, "about ") };
    let took = heard.took.as_secs_f64();
    let writing = heard.first.map_or(took, |first| took - first.as_secs_f64());
    let first = heard.first.unwrap_or(heard.took).as_millis();
    let pace = if streaming && writing > 0.0 {
        format!(
            "first token after {first} ms, {about}{tokens} tokens in {took:.1} s, {:.0} tokens/s",
            tokens as f64 / writing
        )
    } else {
        format!("in one piece after {first} ms, {about}{tokens} tokens, {:.0} tokens/s", tokens as f64 / took)
    };
    let cut = match heard.finish {
        Some(Finish::Length) => ", cut at the longest answer allowed",
        Some(Finish::ContentFilter) => ", cut by the provider's filter",
        Some(Finish::Stop | Finish::ToolCalls | Finish::Cancelled | Finish::Failed) | None => "",
    };
    let shown: String = heard.text.trim().chars().take(SHOWN).collect();
    format!("plain       ok: {pace}{cut}\n            {}\n", shown.replace('\n', "\n            "))
}

/// Judges the answer to one of the harder questions: what was found, or what is wrong.
fn judge(
    heard: Result<ModelAnswer, Error>,
    usage: &mut Usage,
    model: &Model,
    look: fn(&ModelAnswer) -> Result<String, String>,
) -> Result<String, String> {
    heard.map_err(|error| format!("{error} ({})", error.code())).and_then(|heard| {
        *usage += model.with_cost(heard.usage);
        look(&heard).map(|found| format!("{found}, {} ms", heard.took.as_millis()))
    })
}

fn report(what: &str, verdict: &Result<String, String>) -> String {
    match verdict {
        Ok(found) => format!("{what:<10}  ok: {found}\n"),
        Err(why) => format!("{what:<10}  NO: {why}\n"),
    }
}

fn weather() -> ToolSpec {
    ToolSpec {
        name: TOOL.into(),
        description: "Looks up the weather in a city.".into(),
        parameters: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
            "additionalProperties": false,
        }),
    }
}

fn check_call(heard: &ModelAnswer) -> Result<String, String> {
    let Some((name, arguments)) = heard.calls.first() else {
        return Err("the tool was not called; tools = false in the model's entry offers it no tools, and \
            tool_calls_in_text = true finds calls that it writes as text"
            .into());
    };
    let input: Option<Value> = serde_json::from_str(arguments).ok();
    let city = input.as_ref().and_then(|input| input.get("city")).and_then(Value::as_str);
    match city {
        Some(city) if name == TOOL => Ok(format!("called {TOOL} with valid arguments (city {city:?})")),
        Some(_) => Err(format!("called {name:?}, a tool that was not offered")),
        None => Err(format!("called {name:?} with arguments that do not match its schema")),
    }
}

fn schema() -> Schema {
    Schema {
        name: "product".into(),
        schema: json!({
            "type": "object",
            "properties": { "product": { "type": "integer" } },
            "required": ["product"],
            "additionalProperties": false,
        }),
        strict: true,
    }
}

fn check_structured(heard: &ModelAnswer) -> Result<String, String> {
    let answer = serde_json::from_str(heard.text.trim());
    if answer.is_ok_and(|answer| jsonschema::is_valid(&schema().schema, &answer)) {
        return Ok("the answer matches the schema".into());
    }
    Err("the answer does not match the schema; structured = \"prompt\" in the model's entry puts the schema \
        into the prompt instead"
        .into())
}

fn total(usage: &Usage, model: &Model) -> String {
    let kept = match usage.cached_input_tokens {
        0 => String::new(),
        kept => format!(" ({kept} of them kept)"),
    };
    let cost = match model.listing.price {
        Some(_) => format!("${:.6}", usage.cost.dollars()),
        None => "its price is not known".to_owned(),
    };
    format!("usage       {} tokens in{kept}, {} out; {cost}\n", usage.input_tokens, usage.output_tokens)
}

/// Advice to the person who ran the test.
fn remedy(error: &Error, name: &str, provider: &ProviderConfig) -> String {
    let section = format!("[providers.{}]", provider.name);
    let Some(wire) = provider.wire else {
        return "`rondo models list` shows the local models, and [local] in rondo.toml sets how they run"
            .into();
    };
    match error {
        Error::RateLimited { .. } => "wait a little and try again".into(),
        Error::Quota => format!("raise the limit of your account with {}", provider.name),
        Error::Unavailable { .. } => {
            format!("is {} running, and is {} right?", provider.base_url, provider.url_setting())
        }
        Error::Timeout(_) => format!("try again, or raise the time-outs in {section}"),
        Error::Broken(_) => {
            format!("does {} support the API {}? correct wire in {section}", provider.base_url, wire.name())
        }
        Error::Auth { .. } => format!("check {}", provider.key_setting()),
        Error::ContextLength => format!("correct context_window in [models.{name:?}]"),
        Error::Rejected { status: 404, .. } => format!(
            "`rondo doctor` shows what {} has; id in [models.{name:?}] is its own name for the model",
            provider.name
        ),
        Error::Rejected { .. } | Error::Unsupported { .. } => {
            format!(
                "settings that the model refuses can be turned off in [models.{name:?}], such as sampling or \
                 tools"
            )
        }
    }
}
