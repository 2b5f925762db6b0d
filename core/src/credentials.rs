//! A login, and what gives one that changes while a client lives.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::secret::Secret;

/// A login.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// The user; `None` for Redis' default user.
    pub user: Option<String>,
    /// The password, or a token in its place.
    pub password: Secret,
}

impl Credentials {
    /// Of a user with a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: Secret::new(password) }
    }

    /// Of Redis' default user.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: Secret::new(password) }
    }
}

/// Gives the login at each dial: tokens that expire, passwords that are changed under way. It goes into
/// a [`Config`](crate::Config) by [`with_credentials`](crate::Config::with_credentials).
///
/// When it is asked: Redis, for each connection; etcd, for each log-in, of which there is one at connect,
/// and one whenever the server does not know the last one's token any more or refuses it; ZooKeeper, for
/// each session. (ZooKeeper's ACLs name the login itself, so that what a client has made belongs to that
/// login: change the password together with the lists.)
///
/// ```
/// use latchwork_core::{Config, Credentials, CredentialsProvider, Error};
///
/// struct Tokens;
///
/// #[async_trait::async_trait]
/// impl CredentialsProvider for Tokens {
///     async fn credentials(&self) -> Result<Credentials, Error> {
///         let token = "fetched from where they are issued";
///         Ok(Credentials::new("billing", token))
///     }
/// }
///
/// let config = Config::from_url("redis://cache")?.with_credentials(Tokens);
/// # Ok::<(), Error>(())
/// ```
#[async_trait]
pub trait CredentialsProvider: Send + Sync {
    /// The login to use now. It has the request timeout.
    ///
    /// # Errors
    /// `Unavailable` where it can be had later: the client tries again. Another error ends a connect.
    ///
    /// # Cancel safety
    /// It may be dropped at any await point, and is asked again then.
    async fn credentials(&self) -> Result<Credentials>;
}

/// The provider of a configuration. Two configurations are equal when they have the same one.
#[derive(Clone, Default)]
pub(crate) struct Provider(pub(crate) Option<Arc<dyn CredentialsProvider>>);

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a provider" } else { "none" })
    }
}
