//! Who speaks, and the key of everything they own.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name!(
    /// An app by the name of its folder.
    AppId
);
name!(
    /// A user as authentication named them.
    UserId
);

/// What authentication yields. Built in `server::auth` and nowhere else, which `cargo xtask tidy` checks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    user: UserId,
    /// The only app it may use; all of them when none.
    app: Option<AppId>,
    admin: bool,
}

impl Principal {
    pub fn authenticated(user: UserId) -> Self {
        Self { user, app: None, admin: false }
    }

    /// May use this app and no other.
    #[must_use]
    pub fn only_for(self, app: AppId) -> Self {
        Self { app: Some(app), ..self }
    }

    /// May also look after the server.
    #[must_use]
    pub fn as_admin(self) -> Self {
        Self { admin: true, ..self }
    }

    pub fn is_admin(&self) -> bool {
        self.admin
    }

    pub fn may_use(&self, app: &AppId) -> bool {
        self.app.as_ref().is_none_or(|only| only == app)
    }

    /// The one app that its key is for; none when it is for all of them.
    pub fn only_app(&self) -> Option<&AppId> {
        self.app.as_ref()
    }

    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// This principal's share of an app.
    pub fn scope(&self, app: AppId) -> Scope {
        Scope { app, user: self.user.clone() }
    }
}

/// (app, user): the key of everything a user owns. It comes from a [`Principal`] or from a stored row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    pub app: AppId,
    pub user: UserId,
}
