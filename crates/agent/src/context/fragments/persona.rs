//! The fragment that says who speaks: a persona's prompt. Its bound is that of personas; what cannot be used is left
//! out with a warning.

use app::Fragment;
use protocol::Warning;

use crate::context::PromptPiece;
use crate::context::gather::Sources;
use crate::personas;

pub(in crate::context) async fn read(
    from: &Sources<'_>,
    id: &str,
) -> Result<Result<PromptPiece, Warning>, store::Error> {
    let persona = match personas::find(&from.world.store, from.app, from.scope, id).await? {
        Ok(persona) => persona,
        Err(warning) => return Ok(Err(warning)),
    };
    // The app's own go with the thread; the user's with the persona.
    let source = match from.app.personas.contains_key(id) {
        true => from.thread.to_string(),
        false => store::source::of_persona(id),
    };
    Ok(Ok(PromptPiece::new(Fragment::Persona, source, persona.prompt)))
}
