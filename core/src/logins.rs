use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::config::Config;
use crate::credentials::{Credentials, CredentialsProvider, Provider};
use crate::error::{Error, ErrorKind, Result};

/// The source of a client's login: for backends.
#[derive(Clone, Default)]
pub struct Logins(LoginSource);

#[derive(Clone, Default)]
enum LoginSource {
    #[default]
    Nobody,
    Fixed(Credentials),
    Provider(Arc<dyn CredentialsProvider>),
}

impl Logins {
    /// Takes the login from a configuration: from its provider, or from its user and password.
    pub fn of(config: &Config) -> Self {
        Self(match (&config.credentials, &config.password) {
            (Provider(Some(provider)), _) => LoginSource::Provider(Arc::clone(provider)),
            (_, Some(password)) => {
                LoginSource::Fixed(Credentials { user: config.user.clone(), password: password.clone() })
            }
            _ => LoginSource::Nobody,
        })
    }

    /// Returns whether there is a login.
    pub fn are_given(&self) -> bool {
        !matches!(self.0, LoginSource::Nobody)
    }

    /// Returns whether the login may change later.
    pub fn may_change(&self) -> bool {
        matches!(self.0, LoginSource::Provider(_))
    }

    /// Returns the login to use now.
    ///
    /// # Errors
    /// The errors of the provider. `Unavailable`: the provider took longer than `within`, or panicked. (A
    /// panic must not end the task that connects.)
    ///
    /// # Cancel safety
    /// As the provider.
    pub async fn now(&self, within: Duration) -> Result<Option<Credentials>> {
        match &self.0 {
            LoginSource::Nobody => Ok(None),
            LoginSource::Fixed(credentials) => Ok(Some(credentials.clone())),
            LoginSource::Provider(provider) => {
                let asked = AssertUnwindSafe(async { provider.credentials().await }).catch_unwind();
                let why = match tokio::time::timeout(within, asked).await {
                    Ok(Ok(given)) => return given.map(Some),
                    Ok(Err(_panic)) => "the credentials provider panicked: see the standard error".to_owned(),
                    Err(_) => format!("the credentials provider gave no login within {within:?}"),
                };
                Err(Error::new(ErrorKind::Unavailable, why))
            }
        }
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LoginSource::Nobody => "nobody",
            LoginSource::Fixed(_) => "***",
            LoginSource::Provider(_) => "a provider",
        })
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

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
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    #[derive(Default)]
    struct Shaky(std::sync::atomic::AtomicBool);

    #[async_trait]
    impl CredentialsProvider for Shaky {
        async fn credentials(&self) -> Result<Credentials> {
            assert!(self.0.swap(true, std::sync::atomic::Ordering::Relaxed), "planted");
            Ok(Credentials::new("app", "hunter2"))
        }
    }

    #[tokio::test]
    async fn panic_of_a_provider_is_unavailable_and_the_next_call_asks_again() {
        let logins = Logins::of(&Config::new("redis").with_credentials(Shaky::default()));
        let error = logins.now(Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let given = logins.now(Duration::from_secs(2)).await.unwrap();
        assert_eq!(given, Some(Credentials::new("app", "hunter2")));
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
    fn credentials_provider_with_a_login_is_refused_and_not_serialized() {
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
