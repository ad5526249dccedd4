//! Personas: those of the app's folder and those of users, and what is done when one cannot be used.

use app::{App, Persona};
use protocol::{PersonaSettings, Scope, Warning};
use store::{PersonaRow, Store};

/// The persona of this id; else a warning that says why there is none. Fails if the database is away.
pub async fn find(
    store: &Store,
    app: &App,
    scope: &Scope,
    id: &str,
) -> Result<Result<Persona, Warning>, store::Error> {
    if let Some(persona) = app.personas.get(id) {
        return Ok(Ok(persona.clone()));
    }
    let warning = |code: &str, why: String| {
        tracing::warn!(app = %app.id, persona = id, why, "a persona cannot be used; the answer is given without a persona");
        Warning { code: code.into(), message: format!("{why}; the answer is given without a persona") }
    };
    Ok(match store.persona(scope, id).await {
        Ok(Some(row)) => usable_persona(app, &row).map_err(|why| warning("persona_unusable", why)),
        Err(error) if error.is_away() => return Err(error),
        Ok(None) => Err(warning("persona_unknown", format!("there is no persona {id:?}"))),
        Err(error) => {
            tracing::error!(%error, "a persona was not read");
            Err(warning("persona_unusable", format!("the persona {id:?} could not be read")))
        }
    })
}

/// A stored persona as far as it can be used: rows may break, and an app's ranges may change after one was stored.
pub fn usable_persona(app: &App, row: &PersonaRow) -> Result<Persona, String> {
    let id = &row.id;
    let settings: PersonaSettings = serde_json::from_str(&row.settings)
        .map_err(|_| format!("the settings of the persona {id:?} cannot be read"))?;
    if row.prompt.trim().is_empty() && settings.is_empty() {
        return Err(format!("the persona {id:?} has neither a prompt nor settings"));
    }
    app.ranges.check(&settings.settings).map_err(|outside| {
        format!(
            "{} of the persona {id:?} must be from {} to {}",
            outside.field, outside.within.low, outside.within.high
        )
    })?;
    Ok(Persona { id: row.id.clone(), name: row.name.clone(), prompt: row.prompt.clone(), settings })
}
