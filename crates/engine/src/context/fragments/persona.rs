//! Who speaks: a persona's prompt. Its bound is that of personas; what cannot be used is left out with a warning.

use app::Fragment;
use protocol::Warning;

use crate::context::Piece;
use crate::context::gather::Sources;
use crate::personas;

pub(in crate::context) async fn read(from: &Sources<'_>, id: &str) -> Result<Piece, Warning> {
    let persona = personas::find(from.store, from.app, from.scope, id).await?;
    Ok(Piece::new(Fragment::Persona, from.thread, persona.prompt))
}
