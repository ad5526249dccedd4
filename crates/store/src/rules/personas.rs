//! Personas of users: how large a prompt may be, and how many a user may have.

use crate::{Error, MAX_PERSONA_BYTES, MAX_PERSONAS_PER_SCOPE};

pub fn check_persona_prompt(prompt: &str) -> Result<(), Error> {
    if prompt.len() > MAX_PERSONA_BYTES {
        let message = format!("the prompt of a persona has at most {MAX_PERSONA_BYTES} bytes");
        return Err(Error::Changed(message));
    }
    Ok(())
}

/// Refuses a new persona whose id another has.
pub fn check_persona_id(id: &str, is_taken: bool) -> Result<(), Error> {
    if is_taken { Err(Error::Changed(format!("there is a persona {id} already"))) } else { Ok(()) }
}

/// Whether a user with `there` personas may have another.
pub fn check_persona_room(there: u64) -> Result<(), Error> {
    if there < MAX_PERSONAS_PER_SCOPE as u64 {
        return Ok(());
    }
    Err(Error::Changed(format!("there are already {MAX_PERSONAS_PER_SCOPE} personas; delete some first")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personas_have_bounds_of_size_and_number_and_ids_of_their_own() {
        let long = "x".repeat(MAX_PERSONA_BYTES + 1);
        assert!(check_persona_prompt(&long[1..]).is_ok() && check_persona_prompt(&long).is_err());
        assert!(check_persona_id("tutor", false).is_ok());
        let taken = check_persona_id("tutor", true).unwrap_err().to_string();
        assert_eq!(taken, "there is a persona tutor already");
        let most = MAX_PERSONAS_PER_SCOPE as u64;
        assert!(check_persona_room(most - 1).is_ok() && check_persona_room(most).is_err());
    }
}
