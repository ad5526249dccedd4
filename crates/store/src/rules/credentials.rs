//! Credentials: how large one may be, and how many a user may have.

use crate::{Error, MAX_CREDENTIAL_BYTES, MAX_CREDENTIAL_NAME_BYTES, MAX_CREDENTIALS_PER_SCOPE};

/// Whether a credential of this name can be kept, which has `sealed` bytes when it is sealed.
pub fn check_credential(name: &str, sealed: usize) -> Result<(), Error> {
    if name.is_empty() || name.len() > MAX_CREDENTIAL_NAME_BYTES {
        let message = format!("the name of a credential has 1 to {MAX_CREDENTIAL_NAME_BYTES} bytes");
        return Err(Error::Changed(message));
    }
    if sealed > MAX_CREDENTIAL_BYTES {
        let message = format!("a sealed credential has at most {MAX_CREDENTIAL_BYTES} bytes");
        return Err(Error::Changed(message));
    }
    Ok(())
}

/// Whether a user with `others` credentials of other names may have this one.
pub fn check_credential_room(others: u64) -> Result<(), Error> {
    if others < MAX_CREDENTIALS_PER_SCOPE as u64 {
        return Ok(());
    }
    let message = format!("there are already {MAX_CREDENTIALS_PER_SCOPE} credentials; delete some first");
    Err(Error::Changed(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_have_bounds_of_name_size_and_number() {
        let long = "x".repeat(MAX_CREDENTIAL_NAME_BYTES + 1);
        assert!(check_credential(&long[1..], MAX_CREDENTIAL_BYTES).is_ok());
        assert!(check_credential("", 1).is_err() && check_credential(&long, 1).is_err());
        assert!(check_credential("token", MAX_CREDENTIAL_BYTES + 1).is_err());
        let most = MAX_CREDENTIALS_PER_SCOPE as u64;
        assert!(check_credential_room(most - 1).is_ok() && check_credential_room(most).is_err());
    }
}
