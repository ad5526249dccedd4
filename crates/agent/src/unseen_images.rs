//! Images that the model of a run does not see: how its log notes them, and how its owner is warned.

use protocol::{LeftOut, StepEnd, Warning};

/// Images of the message that a run answers, in the ledger of a prompt. Images of earlier messages count with the
/// history.
pub(crate) const IMAGES: &str = "images";

const CODE: &str = "images_left_out";

/// The warning of a run whose model does not see the images of the message.
pub(crate) fn warning() -> Warning {
    let message = "the model has no vision, so it was told of the images in words and did not see them";
    Warning { code: CODE.into(), message: message.into() }
}

/// The note of the images, for the ledger of a prompt without them.
pub(crate) fn left_out(images: usize, tokens: usize) -> LeftOut {
    let what = format!("{images} images: the model has no vision");
    LeftOut { fragment: IMAGES.into(), what, tokens: tokens as u64 }
}

/// The warnings of a run: those that were noted when it began, and the one of a fallback that saw no images.
pub(crate) fn warnings<'s>(
    mut noted: Vec<Warning>,
    mut steps: impl Iterator<Item = &'s StepEnd>,
) -> Vec<Warning> {
    let is_unseen = |step: &StepEnd| {
        let left_out = step.prompt.iter().flat_map(|ledger| &ledger.left_out);
        left_out.into_iter().any(|left_out| left_out.fragment == IMAGES)
    };
    if noted.iter().all(|warning| warning.code != CODE) && steps.any(is_unseen) {
        noted.push(warning());
    }
    noted
}
