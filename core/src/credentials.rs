use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::secret::Secret;

/// A login: user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// The user; `None` for Redis' default user.
    pub user: Option<String>,
    /// The password, or a token that replaces it.
    pub password: Secret,
}

impl Credentials {
    /// Makes a login of a user with a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: Secret::new(password) }
    }

    /// Makes a login of Redis' default user.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: Secret::new(password) }
    }
}

/// Provides the login for each new connection, for tokens that expire and passwords that change.
/// [`Config::with_credentials`](crate::Config::with_credentials) sets it.
///
/// | backend | the client asks for the login |
/// |---|---|
/// | Redis | for each connection |
/// | etcd | at connect, and when the server refuses or no longer knows the last token |
/// | ZooKeeper | for each session |
///
/// ZooKeeper's ACLs contain the login, and the nodes of a client belong to it: change the password together
/// with the ACLs.
///
/// ```
/// use latchwork_core::{Config, Credentials, CredentialsProvider, Error};
///
/// struct Tokens;
///
/// #[async_trait::async_trait]
/// impl CredentialsProvider for Tokens {
///     async fn credentials(&self) -> Result<Credentials, Error> {
///         let token = "a token from the service that issues tokens";
///         Ok(Credentials::new("billing", token))
///     }
/// }
///
/// let config = Config::from_url("redis://cache")?.with_credentials(Tokens);
/// # Ok::<(), Error>(())
/// ```
#[async_trait]
pub trait CredentialsProvider: Send + Sync {
    /// Returns the login to use now, within the request timeout.
    ///
    /// # Errors
    /// * `Unavailable`: the login is not available now. The client tries again.
    /// * Any other kind: `connect` fails with this error.
    ///
    /// # Cancel safety
    /// The client may drop the future at any await point, and then calls again.
    async fn credentials(&self) -> Result<Credentials>;
}

/// Two configurations are equal if they have the same provider.
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
