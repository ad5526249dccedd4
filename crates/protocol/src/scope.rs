//! The sender of a request, and the key of all data that they own.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Right, Rights};

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

/// The result of authentication. Only `server::auth` makes one, which `cargo xtask tidy` checks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    user: UserId,
    /// The only apps that the principal may use; all apps when none.
    apps: Option<Arc<[AppId]>>,
    rights: Rights,
    /// The holder of the acting key that speaks for the user.
    actor: Option<Arc<str>>,
}

impl Principal {
    /// A user who may read and run in all apps.
    pub fn authenticated(user: UserId) -> Self {
        Self { user, apps: None, rights: Rights::USER, actor: None }
    }

    /// Limits the principal to this app.
    #[must_use]
    pub fn only_for(self, app: AppId) -> Self {
        self.only_for_apps([app])
    }

    /// Limits the principal to these apps.
    #[must_use]
    pub fn only_for_apps(self, apps: impl IntoIterator<Item = AppId>) -> Self {
        Self { apps: Some(apps.into_iter().collect()), ..self }
    }

    /// Gives the principal these rights and no others.
    #[must_use]
    pub fn with_rights(self, rights: Rights) -> Self {
        Self { rights, ..self }
    }

    /// Adds the right `admin`.
    #[must_use]
    pub fn as_admin(self) -> Self {
        Self { rights: self.rights.with(Right::Admin), ..self }
    }

    /// Names the holder of the acting key that speaks for the user.
    #[must_use]
    pub fn acted_for_by(self, actor: &str) -> Self {
        Self { actor: Some(actor.into()), ..self }
    }

    pub fn is_admin(&self) -> bool {
        self.has(Right::Admin)
    }

    pub fn has(&self, right: Right) -> bool {
        self.rights.has(right)
    }

    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// The holder of the acting key that speaks for the user, if there is one.
    pub fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    pub fn may_use(&self, app: &AppId) -> bool {
        self.apps.as_ref().is_none_or(|only| only.contains(app))
    }

    /// The apps that the principal is limited to; none when it may use all of them.
    pub fn apps(&self) -> Option<&[AppId]> {
        self.apps.as_deref()
    }

    /// The app that the principal is limited to, if it is one alone.
    pub fn only_app(&self) -> Option<&AppId> {
        match self.apps() {
            Some([only]) => Some(only),
            Some(_) | None => None,
        }
    }

    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// The name in notes about who did something: the actor and the user, or the user alone.
    pub fn name(&self) -> String {
        match self.actor() {
            Some(actor) if actor != self.user.as_str() => format!("{actor} for {}", self.user),
            Some(_) | None => self.user.to_string(),
        }
    }

    /// The scope of this principal in an app.
    pub fn scope(&self, app: AppId) -> Scope {
        Scope { app, user: self.user.clone() }
    }
}

/// An app and a user: the key of all data of the user in the app. A scope comes from a [`Principal`] or from a stored
/// row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    pub app: AppId,
    pub user: UserId,
}

/// The name of the owner of an app's own data. It is empty, and authentication gives no empty name.
const NO_USER: &str = "";

impl Scope {
    /// The scope of an app's own data, such as the documents of its folder.
    pub fn of_app(app: AppId) -> Self {
        Self { app, user: UserId::new(NO_USER) }
    }

    /// Whether the scope is that of an app's own data.
    pub fn is_of_app(&self) -> bool {
        self.user.as_str() == NO_USER
    }
}
