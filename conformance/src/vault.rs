//! A login with a password that changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use latchwork_core::{Credentials, CredentialsProvider, Result};

/// The login of `app`.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "its text would contain the password")]
pub struct Vault(Arc<(Mutex<String>, AtomicUsize)>);

impl Vault {
    /// Creates a login.
    pub fn new(password: &str) -> Self {
        Self(Arc::new((Mutex::new(password.to_owned()), AtomicUsize::new(0))))
    }

    /// Changes the password.
    pub fn change(&self, password: &str) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = password.to_owned();
    }

    /// Returns the number of requests for the login.
    pub fn asked(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl CredentialsProvider for Vault {
    async fn credentials(&self) -> Result<Credentials> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let password = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Credentials::new("app", password))
    }
}
