//! Images of messages: how many a user may have, and which of them can be deleted.

use crate::{Error, MAX_IMAGE_BYTES_PER_SCOPE, MAX_IMAGES_PER_SCOPE};

/// Whether a user with `there` images, which have `held` bytes, may add one of `bytes`.
pub fn check_image_room(there: u64, held: u64, bytes: u64) -> Result<(), Error> {
    if there >= MAX_IMAGES_PER_SCOPE as u64 {
        let message = format!("there are already {MAX_IMAGES_PER_SCOPE} images; delete some first");
        return Err(Error::Changed(message));
    }
    if held.saturating_add(bytes) > MAX_IMAGE_BYTES_PER_SCOPE {
        return Err(Error::Changed(format!(
            "your images have {held} bytes, and {MAX_IMAGE_BYTES_PER_SCOPE} are allowed; delete some first"
        )));
    }
    Ok(())
}

/// Refuses to delete an image that a message shows.
pub fn check_unused(is_used: bool) -> Result<(), Error> {
    if is_used {
        let message = "a message shows this image; delete the thread of the message first";
        return Err(Error::Changed(message.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_room_up_to_their_number_and_their_bytes() {
        let (most, bytes) = (MAX_IMAGES_PER_SCOPE as u64, MAX_IMAGE_BYTES_PER_SCOPE);
        assert!(check_image_room(most - 1, bytes - 10, 10).is_ok());
        assert!(check_image_room(most, 0, 1).is_err());
        assert!(check_image_room(0, bytes - 10, 11).is_err());
        assert!(check_image_room(0, u64::MAX, u64::MAX).is_err());
        assert!(check_unused(false).is_ok() && check_unused(true).is_err());
    }
}
