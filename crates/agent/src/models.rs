//! Which models an app may use: those that can be chosen, and, where its budget is in dollars, only those with a price.

use std::sync::Arc;

use app::{App, Problem};
use model::{Model, ModelRegistry as Models};

use crate::Error;

/// Everything that is wrong with the models an app names: a budget in dollars that could not be held because a price is
/// not known, and personas of its folder that choose what the app does not allow.
pub fn model_problems(app: &App, models: &Models) -> Vec<Problem> {
    if models.is_empty() {
        return Vec::new(); // without a model, there are no costs
    }
    let default = models.name(None);
    let mut problems = unpriced_models(app, models);
    let chosen = app.personas.iter().filter_map(|(id, persona)| Some((id, persona.settings.model.as_ref()?)));
    for (id, model) in chosen.filter(|(_, model)| !app.allows_model(model, default.as_deref())) {
        let message = format!("the persona chooses the model {model:?}, which the app does not allow");
        let remedy =
            format!("write models = [{model:?}] in app.toml, beside those it has, or leave the model out");
        problems.push(Problem::of(&app.folder.join(format!("personas/{id}.md")), message, remedy));
    }
    problems
}

fn unpriced_models(app: &App, models: &Models) -> Vec<Problem> {
    if !app.budget.is_in_dollars() {
        return Vec::new();
    }
    let priceless = named_models(app, models).into_iter().filter(|model| model.listing.price.is_none());
    let problem = |model: Arc<Model>| Problem {
        line: app.budget.dollars_line,
        ..Problem::of(
            &app.folder.join("app.toml"),
            format!("the budget is in dollars, but the price of the model {:?} is not known", model.name()),
            price_remedy(&model, models),
        )
    };
    priceless.map(problem).collect()
}

/// Every model that the app names and a provider serves, each once.
fn named_models(app: &App, models: &Models) -> Vec<Arc<Model>> {
    let own = models.name(app.model.as_deref());
    let extraction = app.memory.extraction.as_ref().and_then(|extraction| extraction.model.as_ref());
    let summaries = app.history.summarise.as_ref().and_then(|summarise| summarise.model.as_ref());
    let personas = app.personas.values().filter_map(|persona| persona.settings.model.as_ref());
    let listed = app.models.iter().filter(|name| *name != app::ANY_MODEL);
    let names =
        own.iter().chain(&app.fallbacks).chain(extraction).chain(summaries).chain(personas).chain(listed);
    let mut found: Vec<Arc<Model>> = Vec::new();
    for model in names.filter_map(|name| models.find(name)) {
        if !found.iter().any(|other| other.name() == model.name()) {
            found.push(model);
        }
    }
    found
}

/// The lines of `rondo.toml` that give a model its price, the shortest first: a refusal is cut at some length.
fn price_remedy(model: &Model, models: &Models) -> String {
    let listing = &model.listing;
    let id = if listing.id == listing.name { String::new() } else { format!("id = {:?}, ", listing.id) };
    let known = match models.list_price(&listing.provider, &listing.id) {
        Some(_) => format!("prices = \"known\" under [providers.{}], or ", listing.provider),
        None => String::new(),
    };
    format!(
        "write in rondo.toml {known}under [models.{:?}]: provider = {:?}, {id}price = {{ input = 1.0, output = 4.0 }} \
         (US dollars for a million tokens)",
        listing.name, listing.provider
    )
}

/// Refuses a model without a price where the app's budget is in dollars. `field` names the model in the request.
pub fn check_price(app: &App, field: &'static str, model: &Model, models: &Models) -> Result<(), Error> {
    if !app.budget.is_in_dollars() || model.listing.price.is_some() {
        return Ok(());
    }
    let (name, remedy) = (model.name(), price_remedy(model, models));
    let message = format!("{name:?} has no known price, and the app's budget is in dollars; {remedy}");
    Err(Error::invalid(field, message))
}
