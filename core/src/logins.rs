//! Where the login of a client comes from.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::config::Config;
use crate::credentials::{Credentials, CredentialsProvider, Provider};
use crate::error::{Error, ErrorKind, Result};

/// Where the login of a client comes from. For backends.
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
    /// Of a configuration: its provider, else its user and password.
    pub fn of(config: &Config) -> Self {
        Self(match (&config.credentials, &config.password) {
            (Provider(Some(provider)), _) => LoginSource::Provider(Arc::clone(provider)),
            (_, Some(password)) => {
                LoginSource::Fixed(Credentials { user: config.user.clone(), password: password.clone() })
            }
            _ => LoginSource::Nobody,
        })
    }

    /// Whether there is one.
    pub fn are_given(&self) -> bool {
        !matches!(self.0, LoginSource::Nobody)
    }

    /// Whether the login of another time may be another one.
    pub fn may_change(&self) -> bool {
        matches!(self.0, LoginSource::Provider(_))
    }

    /// The login to use now.
    ///
    /// # Errors
    /// The provider's. `Unavailable` if it takes longer than `within`, or panics: its panic must not end the
    /// task that connects, or the client would never connect again.
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
                    Ok(Err(_panic)) => "the provider of credentials panicked",
                    Err(_) => "the provider of credentials took too long",
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

    /// Panics at its first call.
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
