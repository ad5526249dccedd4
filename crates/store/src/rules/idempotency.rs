//! Idempotency keys: a request under a key happens once, and a retry gets the target of the first.

use uuid::Uuid;

use crate::{Error, IdempotencyClaim};

/// A key that was used before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// Of the request that used it.
    pub fingerprint: Vec<u8>,
    /// The thing that the request made.
    pub target: Uuid,
}

/// The target of an earlier request under the same key. [`Error::KeyReused`] if that was another request.
pub fn target_of_repeat(used: Option<UsedKey>, once: &IdempotencyClaim) -> Result<Option<Uuid>, Error> {
    match used {
        None => Ok(None),
        Some(used) if used.fingerprint == once.fingerprint => Ok(Some(used.target)),
        Some(_) => Err(Error::KeyReused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_its_target_to_the_same_request_alone() {
        let once = IdempotencyClaim { key: "k".into(), fingerprint: [1; 32] };
        let used = |byte| Some(UsedKey { fingerprint: vec![byte; 32], target: Uuid::nil() });
        assert_eq!(target_of_repeat(None, &once).unwrap(), None);
        assert_eq!(target_of_repeat(used(1), &once).unwrap(), Some(Uuid::nil()));
        assert!(matches!(target_of_repeat(used(2), &once), Err(Error::KeyReused)));
    }
}
