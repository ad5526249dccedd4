//! Images and documents of messages in a prompt: an image is shown or named in words, a document is named. Pure.

use std::collections::HashSet;

use app::HistoryStyle;
use model::{Counter, PromptImage, UserTurn};
use protocol::{MessageId, MessagePart};

use super::history::{PastTurn, RECENT};
use super::{Context, PromptHistory};
use crate::transcript::text_with;

/// Images of earlier messages get at most 1/`IMAGE_SHARE` of the prompt.
const IMAGE_SHARE: usize = 4;

/// An image of an earlier message: the message, and the place among its parts.
type ImagePlace = (MessageId, usize);

/// A message of the user with the images that are `shown`, by their places; other parts are named in its text.
pub(super) fn user_turn(text: &str, parts: &[MessagePart], shown: impl Fn(usize) -> bool) -> UserTurn {
    let is_shown = |(place, part): &(usize, &MessagePart)| part.image().is_some() && shown(*place);
    let (images, named): (Vec<_>, Vec<_>) = parts.iter().enumerate().partition(is_shown);
    UserTurn {
        text: text_with(text, named.into_iter().map(|(_, part)| part)),
        images: images.into_iter().filter_map(|(_, part)| prompt_image(part)).collect(),
    }
}

fn prompt_image(part: &MessagePart) -> Option<PromptImage> {
    match part {
        MessagePart::Image { image_id, media_type, width, height, .. } => Some(PromptImage {
            id: *image_id,
            media_type: media_type.clone(),
            width: *width,
            height: *height,
            content: None,
        }),
        MessagePart::Document { .. } => None,
    }
}

/// The tokens of images that are shown.
pub(super) fn image_tokens(parts: &[MessagePart], counter: &Counter) -> usize {
    parts.iter().filter_map(|part| tokens_of(part, counter)).sum()
}

fn tokens_of(part: &MessagePart, counter: &Counter) -> Option<usize> {
    match part {
        MessagePart::Image { width, height, .. } => Some(counter.image(*width, *height)),
        MessagePart::Document { .. } => None,
    }
}

/// The images of these turns that can be shown, newest first.
fn showable_images(
    style: HistoryStyle,
    turns: &[PastTurn],
) -> impl Iterator<Item = (ImagePlace, &MessagePart)> {
    // One style has only the last messages one by one.
    let most = match style {
        HistoryStyle::Plain => usize::MAX,
        HistoryStyle::Reference => RECENT,
    };
    let newest = turns.iter().rev().filter(|past| past.turn.role.is_some()).take(most);
    newest.flat_map(|past| {
        let images = past.turn.parts.iter().enumerate().rev().filter(|(_, part)| part.image().is_some());
        images.map(|(place, part)| ((past.id, place), part))
    })
}

/// Whether any image could be in the prompt.
pub(super) fn has_images(context: &Context) -> bool {
    let PromptHistory { style, turns } = &context.history;
    context.parts.iter().any(|part| part.image().is_some()) || showable_images(*style, turns).next().is_some()
}

/// How many images of earlier messages are shown, the newest: as many as the app allows and as there is room for.
pub(super) fn affordable_images(context: &Context, counter: &Counter, limit: usize) -> usize {
    let PromptHistory { style, turns } = &context.history;
    let mut room = limit / IMAGE_SHARE;
    let fits = |(_, part): &(ImagePlace, &MessagePart)| {
        let rest = tokens_of(part, counter).and_then(|tokens| room.checked_sub(tokens));
        room = rest.unwrap_or(room);
        rest.is_some()
    };
    showable_images(*style, turns).take(context.history_images).take_while(fits).count()
}

/// The images of these turns that are shown if `count` images are shown.
pub(super) fn shown_images(style: HistoryStyle, turns: &[PastTurn], count: usize) -> HashSet<ImagePlace> {
    showable_images(style, turns).take(count).map(|(place, _)| place).collect()
}

/// The number of images of these turns that are not shown if `count` images are shown.
pub(super) fn hidden_images(turns: &[PastTurn], count: usize) -> usize {
    let images = turns.iter().flat_map(|past| &past.turn.parts).filter(|part| part.image().is_some());
    images.count().saturating_sub(count)
}
