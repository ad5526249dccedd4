//! The images of a request, read right before it is sent.

use std::collections::HashMap;
use std::sync::Arc;

use ::model::{ModelRequest, PromptImage, PromptMessage, UserTurn};
use protocol::ImageId;
use store::MAX_IMAGES_PER_READ;

use super::Run;

impl Run {
    /// Reads each image of a request once. One that is gone is named in words.
    pub(super) async fn read_images(&self, request: &mut ModelRequest) -> Result<(), store::Error> {
        let mut ids: Vec<ImageId> =
            turns(request).flat_map(|said| &said.images).map(|image| image.id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(());
        }
        ids.truncate(MAX_IMAGES_PER_READ);
        let contents = self.world.store.image_contents(&self.scope, ids.clone()).await?;
        let contents: HashMap<ImageId, Arc<[u8]>> =
            ids.into_iter().zip(contents).filter_map(|(id, content)| Some((id, content?))).collect();
        turns(request).for_each(|said| fill(said, &contents));
        Ok(())
    }
}

fn turns(request: &mut ModelRequest) -> impl Iterator<Item = &mut UserTurn> {
    request.messages.iter_mut().filter_map(|message| match message {
        PromptMessage::User(said) => Some(said),
        PromptMessage::System(_) | PromptMessage::Assistant { .. } => None,
    })
}

fn fill(said: &mut UserTurn, contents: &HashMap<ImageId, Arc<[u8]>>) {
    let mut gone = Vec::new();
    said.images.retain_mut(|image| {
        image.content = contents.get(&image.id).cloned();
        if image.content.is_none() {
            gone.push(gone_text(image));
        }
        image.content.is_some()
    });
    if !gone.is_empty() {
        let text = Some(std::mem::take(&mut said.text)).filter(|text| !text.is_empty());
        said.text = text.into_iter().chain(gone).collect::<Vec<_>>().join("\n");
    }
}

fn gone_text(image: &PromptImage) -> String {
    tracing::warn!(image = %image.id, "an image of a message is gone; the model is told so");
    format!("[image: {}x{}, no longer there]", image.width, image.height)
}
