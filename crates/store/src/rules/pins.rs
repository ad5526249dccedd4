//! Pins: how large one may be, and how many a user may have.

use crate::{Error, MAX_PIN_BYTES, MAX_PINS_PER_SCOPE};

pub fn check_pin_text(text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > MAX_PIN_BYTES {
        return Err(Error::Changed(format!("a pin has 1 to {MAX_PIN_BYTES} bytes")));
    }
    Ok(())
}

/// Whether a user with `there` pins may have another.
pub fn check_pin_room(there: u64) -> Result<(), Error> {
    if there < MAX_PINS_PER_SCOPE as u64 {
        return Ok(());
    }
    Err(Error::Changed(format!("there are already {MAX_PINS_PER_SCOPE} pins; delete some first")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_have_bounds_of_size_and_number() {
        let long = "x".repeat(MAX_PIN_BYTES + 1);
        assert!(check_pin_text(&long[1..]).is_ok());
        assert!(check_pin_text("").is_err() && check_pin_text(&long).is_err());
        let most = MAX_PINS_PER_SCOPE as u64;
        assert!(check_pin_room(most - 1).is_ok() && check_pin_room(most).is_err());
    }
}
