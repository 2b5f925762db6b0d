//! Logins that change while a client lives.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::config::{Config, Secret};
use crate::error::{Error, ErrorKind, Result};

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
/// a [`Config`] by [`Config::with_credentials`].
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

/// Where the login of a client comes from. For backends.
#[derive(Clone, Default)]
pub struct Logins(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    Nobody,
    Fixed(Credentials),
    Provider(Arc<dyn CredentialsProvider>),
}

impl Logins {
    /// Of a configuration: its provider, else its user and password.
    pub fn of(config: &Config) -> Self {
        Self(match (&config.credentials, &config.password) {
            (Provider(Some(provider)), _) => Source::Provider(Arc::clone(provider)),
            (_, Some(password)) => {
                Source::Fixed(Credentials { user: config.user.clone(), password: password.clone() })
            }
            _ => Source::Nobody,
        })
    }

    /// Whether there is one.
    pub fn are_given(&self) -> bool {
        !matches!(self.0, Source::Nobody)
    }

    /// Whether the login of another time may be another one.
    pub fn may_change(&self) -> bool {
        matches!(self.0, Source::Provider(_))
    }

    /// The login to use now.
    ///
    /// # Errors
    /// Those of the provider, and `Unavailable` when it takes longer than `within`.
    ///
    /// # Cancel safety
    /// As the provider.
    pub async fn now(&self, within: Duration) -> Result<Option<Credentials>> {
        match &self.0 {
            Source::Nobody => Ok(None),
            Source::Fixed(credentials) => Ok(Some(credentials.clone())),
            Source::Provider(provider) => match tokio::time::timeout(within, provider.credentials()).await {
                Ok(given) => given.map(Some),
                Err(_) => {
                    Err(Error::new(ErrorKind::Unavailable, "the provider of credentials took too long"))
                }
            },
        }
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Nobody => "nobody",
            Source::Fixed(_) => "***",
            Source::Provider(_) => "a provider",
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow;

    #[async_trait]
    impl CredentialsProvider for Slow {
        async fn credentials(&self) -> Result<Credentials> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_takes_too_long_is_unavailable() {
        let config = Config::new("redis").with_credentials(Slow);
        let error = Logins::of(&config).now(Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn the_login_of_a_url_stays_the_same() {
        let of = |url: &str| Logins::of(&Config::from_url(url).unwrap());
        assert!(!of("redis://h").are_given());
        let logins = of("redis://app:hunter2@h");
        assert_eq!(logins.now(Duration::ZERO).await.unwrap(), Some(Credentials::new("app", "hunter2")));
        assert!(!format!("{logins:?} {:?}", Credentials::new("app", "hunter2")).contains("hunter2"));
        let user = of("redis://:hunter2@h").now(Duration::ZERO).await.unwrap();
        assert_eq!(user, Some(Credentials::of_default_user("hunter2")));
    }

    #[test]
    fn a_provider_beside_a_login_is_refused_and_never_written() {
        let config = Config::from_url("redis://app:hunter2@h").unwrap().with_credentials(Slow);
        assert_eq!(config.validate().unwrap_err().argument(), Some("credentials"));
        let config = Config::new("redis").with_credentials(Slow);
        assert_eq!(config, config.clone());
        assert_ne!(config, Config::new("redis"));
        assert!(!serde_json::to_string(&config).unwrap().contains("credentials"));
        assert_eq!(
            Config::new("memory").with_credentials(Slow).validate().unwrap_err().argument(),
            Some("credentials")
        );
    }
}
