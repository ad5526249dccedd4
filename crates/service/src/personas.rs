//! Personas as the outside asks for them: those of the app's folder to read, those of the user to keep.

use agent::usable_persona;
use app::{App, Persona};
use protocol::{NewPersona, Page, PersonaPatch, PersonaSettings, PersonaView, Principal};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use store::{IdempotencyClaim, MAX_PERSONA_BYTES, PersonaRow};

use crate::checks::PageQuery;
use crate::{Error, Service, checks};

/// Hexadecimal digits of an id that is made up.
const MADE_UP_DIGITS: usize = 12;

const OF_APP: &str = "app";
const OF_USER: &str = "user";

impl Service {
    /// Personas of the app first, then the user's by name. The first page has all of the app's beside the user's.
    pub async fn personas(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<PersonaView>, Error> {
        let (scope, app) = self.share_of(principal, app)?;
        let asked = page.of_short_list()?;
        let own = self.store().personas(&scope, asked).await?;
        let Page { data: own, next } = checks::short_page(own, asked, |row| of_user(&app, row));
        let of_folder = app.personas.values().filter(|_| asked.after.is_none()).map(of_app);
        Ok(Page { data: of_folder.chain(own).collect(), next })
    }

    pub async fn persona(&self, principal: &Principal, app: &str, id: &str) -> Result<PersonaView, Error> {
        let (scope, app) = self.share_of(principal, app)?;
        match app.personas.get(id) {
            Some(persona) => Ok(of_app(persona)),
            None => Ok(of_user(&app, existing_persona(self.store().persona(&scope, id).await?)?)),
        }
    }

    pub async fn create_persona(
        &self,
        principal: &Principal,
        app: &str,
        new: NewPersona,
        once: Option<IdempotencyClaim>,
    ) -> Result<PersonaView, Error> {
        let (scope, app) = self.share_of(principal, app)?;
        let id = match new.id {
            Some(id) => good_id(id)?,
            None => self.made_up_id(once.as_ref()),
        };
        if app.personas.contains_key(&id) {
            return Err(id_taken(&id));
        }
        let name = new.name.as_deref().map(checks::name).transpose()?;
        let persona = store::NewPersonaRow {
            name: name.unwrap_or_else(|| id.clone()),
            prompt: prompt(new.prompt, !new.settings.is_empty())?,
            settings: self.good_settings(&app, &new.settings)?,
            id,
        };
        let id = persona.id.clone();
        match self.store().add_persona(&scope, persona, once).await {
            Err(store::Error::Changed(message)) => {
                // The store refuses the id, or one more persona.
                let is_taken = self.store().persona(&scope, &id).await?.is_some();
                Err(if is_taken { id_taken(&id) } else { Error::Conflict { code: "personas_full", message } })
            }
            made => Ok(of_user(&app, made?)),
        }
    }

    pub async fn change_persona(
        &self,
        principal: &Principal,
        (app, id): (&str, &str),
        patch: PersonaPatch,
        once: Option<IdempotencyClaim>,
    ) -> Result<PersonaView, Error> {
        let (scope, app) = self.share_of(principal, app)?;
        if app.personas.contains_key(id) {
            return Err(not_here(id));
        }
        let row = existing_persona(self.store().persona(&scope, id).await?)?;
        let PersonaPatch { name, prompt: words, settings } = patch;
        if name.is_none() && words.is_none() && settings.is_none() {
            let message = "is missing, and so are `name` and `settings`; send at least one of them";
            return Err(Error::invalid("prompt", message));
        }
        let settings = match settings {
            Some(settings) => self.good_settings(&app, &settings)?,
            // There is nothing to keep if nothing can be read.
            None => serde_json::from_str(&row.settings).unwrap_or_else(|_| Value::Object(Map::new())),
        };
        let is_set = settings.as_object().is_some_and(|settings| !settings.is_empty());
        let persona = store::NewPersonaRow {
            id: row.id,
            name: name.as_deref().map(checks::name).transpose()?.unwrap_or(row.name),
            prompt: prompt(words.unwrap_or(row.prompt), is_set)?,
            settings,
        };
        Ok(of_user(&app, self.store().change_persona(&scope, persona, once).await?))
    }

    /// Threads in which it answered go on without one.
    pub async fn delete_persona(
        &self,
        principal: &Principal,
        (app, id): (&str, &str),
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let (scope, app) = self.share_of(principal, app)?;
        // The user's may have been there before the app's of the same id.
        if app.personas.contains_key(id) && self.store().persona(&scope, id).await?.is_none() {
            return Err(not_here(id));
        }
        self.store().delete_persona(&scope, id, once).await?;
        self.world().sweeper.sweep(); // it is gone from every file, not from the list alone
        Ok(())
    }

    /// Under a key it is the same each time: what a key made is found again by its id.
    fn made_up_id(&self, once: Option<&IdempotencyClaim>) -> String {
        let drawn = match once {
            Some(once) => {
                Sha256::new().chain_update(&once.key).chain_update(once.fingerprint).finalize().to_vec()
            }
            None => self.world().ids.fresh().into_bytes().to_vec(),
        };
        // The end of a fresh id is its random part.
        let digits = drawn.iter().rev().take(MADE_UP_DIGITS / 2).rev().map(|byte| format!("{byte:02x}"));
        format!("persona_{}", digits.collect::<String>())
    }

    fn good_settings(&self, app: &App, settings: &PersonaSettings) -> Result<Value, Error> {
        checks::settings(&settings.settings, &app.ranges)?;
        if let Some(model) = &settings.model {
            checks::model_name("settings.model", model)?;
            self.check_model(app, "settings.model", Some(model))?;
        }
        serde_json::to_value(settings).map_err(|error| {
            tracing::error!(%error, "the settings of a persona cannot be stored as JSON");
            Error::Internal
        })
    }
}

/// The id, under the name that its own request has for it.
fn good_id(id: String) -> Result<String, Error> {
    match checks::persona(id) {
        Err(Error::Invalid { message, .. }) => Err(Error::invalid("id", message)),
        checked => checked,
    }
}

/// A prompt, which may be empty if the persona sets how the model answers.
fn prompt(prompt: String, is_set: bool) -> Result<String, Error> {
    if prompt.trim().is_empty() && !is_set {
        return Err(Error::invalid("prompt", "is empty, and so are `settings`; send at least one of them"));
    }
    if prompt.len() > MAX_PERSONA_BYTES {
        return Err(Error::TooLarge { field: "prompt", limit: MAX_PERSONA_BYTES });
    }
    Ok(prompt)
}

fn existing_persona(row: Option<PersonaRow>) -> Result<PersonaRow, Error> {
    row.ok_or(Error::NotFound { what: "persona" })
}

fn id_taken(id: &str) -> Error {
    let message = format!("there is a persona {id:?} already; choose another id, or change that one");
    Error::Conflict { code: "persona_exists", message }
}

fn not_here(id: &str) -> Error {
    let message = format!("the persona {id:?} is a file in the app's folder; change that file");
    Error::Conflict { code: "persona_of_app", message }
}

fn of_app(persona: &Persona) -> PersonaView {
    let Persona { id, name, prompt, settings } = persona.clone();
    PersonaView {
        id,
        name,
        prompt,
        settings,
        origin: OF_APP.into(),
        problem: None,
        created_at: None,
        updated_at: None,
    }
}

fn of_user(app: &App, row: PersonaRow) -> PersonaView {
    let problem = match usable_persona(app, &row) {
        Ok(_) if app.personas.contains_key(&row.id) => {
            Some("the app has a persona with the same id, and uses that one; choose another id".to_owned())
        }
        Ok(_) => None,
        Err(why) => Some(why),
    };
    PersonaView {
        id: row.id,
        name: row.name,
        prompt: row.prompt,
        settings: serde_json::from_str(&row.settings).unwrap_or_default(),
        origin: OF_USER.into(),
        problem,
        created_at: Some(row.created_at),
        updated_at: Some(row.updated_at),
    }
}
