//! `[images]`: images of messages, and models that see none.

use serde::Deserialize;

use crate::source::bounds;
use crate::words::word_enum;

const MAX_EARLIER_IMAGES: i64 = 32;

word_enum! {
    /// The treatment of a message with images by a model without vision.
    pub enum WithoutVision {
        /// The request is refused.
        Refuse = "refuse",
        /// The model is told of the images in words.
        Text = "text",
    }
}

/// `[images]`: how the images of messages are sent to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageRules {
    pub without_vision: WithoutVision,
    /// Images of earlier messages in a prompt at most, the newest.
    #[serde(deserialize_with = "bounds::whole_number::<0, MAX_EARLIER_IMAGES, _, _>")]
    pub history: usize,
}

impl Default for ImageRules {
    fn default() -> Self {
        Self { without_vision: WithoutVision::Refuse, history: 4 }
    }
}
