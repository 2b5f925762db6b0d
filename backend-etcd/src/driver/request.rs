use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Instant;

use etcd_client::Client;

use super::connection::{Driver, login};
use super::request_kind::RequestKind;
use crate::error::{Answer, Failure, as_harmless, is_behind, is_older_than_the_roles, late, refuses_login};

impl Driver {
    /// Requests about leases, watches and the server's state need the whole client.
    pub(super) async fn call<T, F>(&self, kind: RequestKind, request: impl Fn(Client) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.send(kind, || request(self.client.clone())).await
    }

    /// Waits for the throttle, and sends a request within the request timeout.
    ///
    /// A request that was not sent goes to the next server. One that a busy server answered too late, and has
    /// not carried out, is sent again. The client crate logs in again after an expired log-in, but not after
    /// a change of users or roles: this function does so, once.
    pub(super) async fn send<T, F>(&self, kind: RequestKind, request: impl Fn() -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.incarnations.check_one_cluster()?;
        let (_pass, within) = match kind.is_about_keys {
            true => {
                let (pass, left) = self.throttle.take(self.request_timeout).await?;
                (Some(pass), left)
            }
            false => (None, self.request_timeout),
        };
        let all = async {
            let (mut failed, mut again) = (0, false);
            loop {
                self.requests.sent(kind.label);
                let logged_in = self.logged_in.load(Ordering::Acquire);
                match request().await {
                    Err(error)
                        if !again
                            && (is_older_than_the_roles(&error)
                                || self.logins.may_change() && refuses_login(&error)) =>
                    {
                        again = true;
                        self.log_in_after(logged_in).await.map_err(as_harmless)?;
                    }
                    Err(error) if is_behind(&error) => {}
                    answer => match answer.map_err(Failure::from) {
                        Err(failure) if failure.was_not_sent() && failed < self.spare_servers => failed += 1,
                        answer => return answer,
                    },
                }
            }
        };
        let begun = Instant::now();
        let answer = tokio::time::timeout(within, all).await.unwrap_or_else(|_| Err(late()));
        answer.map_err(|failure| {
            failure.secured_by(&self.transport).tried(kind.words, self.link.host(), begun.elapsed())
        })
    }

    /// Logs in again, unless another request has done so since `count`: each log-in costs the server a
    /// password hash. In a background task, because a request that is not polled must not block others.
    async fn log_in_after(&self, count: u64) -> Answer<()> {
        let log_in = || {
            let driver = self.clone();
            async move {
                if driver.logged_in.load(Ordering::Acquire) == count {
                    let login = login(&driver.logins, driver.request_timeout).await?;
                    driver.client.clone().update_user(login).await?;
                    driver.logged_in.fetch_add(1, Ordering::AcqRel);
                }
                Ok(())
            }
        };
        // A task that ends now may have begun for an earlier count.
        while self.logged_in.load(Ordering::Acquire) == count {
            let logging_in = self.log_ins.run(&self.runtime, log_in);
            logging_in.wait_within(self.request_timeout, "the log-in").await??;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::{Error, ErrorKind};

    use super::*;

    #[test]
    fn harmless_request_to_a_full_server_is_refused_and_not_unanswered() {
        let full = Failure::Full(Error::new(ErrorKind::Misconfigured, "the server is full"));
        let error = Error::from(as_harmless(full));
        assert!(error.kind() == ErrorKind::Unavailable && error.is_refusal(), "{error}");
        let unanswered = Error::from(as_harmless(late()));
        assert!(unanswered.kind() == ErrorKind::Unavailable && !unanswered.is_refusal(), "{unanswered}");
    }
}
