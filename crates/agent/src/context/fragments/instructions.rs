//! The app's own instructions. They are as long as the app's author wrote them.

use app::{App, Fragment};

use crate::context::PromptPiece;

pub(in crate::context) fn read(app: &App) -> PromptPiece {
    PromptPiece::new(Fragment::Instructions, store::source::of_app(&app.revision), app.instructions.clone())
}
