//! How a request is sent: in its turn, sent again, and logged in again.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use etcd_client::Client;
use latchwork_core::{Error, Logins};

use super::connection::Driver;
use crate::error::{Answer, Failure, as_read, is_behind, is_older_than_the_roles, late, refuses_login};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Transaction,
    Deletion,
    Read,
    History,
    State,
    Members,
    Grant,
    CellGrant,
    LeaseLeft,
    Revocation,
    Renewal,
    Watch,
}

impl RequestKind {
    /// The labels of all kinds.
    pub(super) const LABELS: [&str; 11] = [
        "txn", "delete", "range", "history", "status", "members", "grant", "lease", "revoke", "renew",
        "watch",
    ];

    /// The label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Transaction => "txn",
            Self::Deletion => "delete",
            Self::Read => "range",
            Self::History => "history",
            Self::State => "status",
            Self::Members => "members",
            Self::Grant | Self::CellGrant => "grant",
            Self::LeaseLeft => "lease",
            Self::Revocation => "revoke",
            Self::Renewal => "renew",
            Self::Watch => "watch",
        }
    }

    /// The words in errors.
    fn words(self) -> &'static str {
        match self {
            Self::Transaction => "a transaction",
            Self::Deletion => "a deletion",
            Self::Read => "a read",
            Self::History => "a look at the past of a key",
            Self::State => "a look at its state",
            Self::Members => "a look at the members",
            Self::Grant => "the grant of a lease",
            Self::CellGrant => "the grant of a cell's lease",
            Self::LeaseLeft => "a look at a lease",
            Self::Revocation => "the end of a lease",
            Self::Renewal => "the renewal of a lease",
            Self::Watch => "a stream of watches",
        }
    }

    /// Whether it waits for the throttle: requests about keys do, so that renewals do not queue behind them.
    fn is_about_keys(self) -> bool {
        matches!(self, Self::Transaction | Self::Deletion | Self::Read | Self::History)
    }
}

impl Driver {
    /// Sends a request on the whole client, as those about leases, watches and the server's state need it.
    pub(super) async fn call<T, F>(&self, kind: RequestKind, request: impl Fn(Client) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.send(kind, || request(self.client.clone())).await
    }

    /// Sends a request, when the throttle lets it pass, within the request timeout.
    ///
    /// A request that was surely not sent goes to the next server. One that a busy server was too late for, and has
    /// not carried out, is sent again. The client crate logs in again when a log-in has run out, but not when users or
    /// roles have changed: this function does so, once.
    pub(super) async fn send<T, F>(&self, kind: RequestKind, request: impl Fn() -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (_pass, within) = match kind.is_about_keys() {
            true => {
                let (pass, left) = self.throttle.take(self.request_timeout()).await?;
                (Some(pass), left)
            }
            false => (None, self.request_timeout()),
        };
        let all = async {
            let (mut failed, mut again) = (0, false);
            loop {
                self.requests.sent(kind.label());
                let logged_in = self.logged_in.load(Ordering::Acquire);
                match request().await {
                    Err(error)
                        if !again
                            && (is_older_than_the_roles(&error)
                                || self.logins.may_change() && refuses_login(&error)) =>
                    {
                        again = true;
                        self.log_in_after(logged_in).await.map_err(as_read)?;
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
            failure.secured_by(&self.transport).tried(kind.words(), self.link().host(), begun.elapsed())
        })
    }

    /// Logs in again, unless another request has done so since `count`: each log-in costs the server
    /// a password hash.
    async fn log_in_after(&self, count: u64) -> Answer<()> {
        let _one_at_a_time = self.log_ins.lock().await;
        if self.logged_in.load(Ordering::Acquire) == count {
            // The present login, where a provider gives it.
            let login = login(&self.logins, self.request_timeout()).await?;
            self.client.clone().update_user(login).await?;
            self.logged_in.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// User and password for a log-in.
pub(super) async fn login(logins: &Logins, within: Duration) -> Answer<Option<(String, String)>> {
    let Some(login) = logins.now(within).await? else { return Ok(None) };
    let Some(user) = login.user else {
        return Err(Error::invalid("credentials", "etcd logs in with a user: the provider gave none").into());
    };
    Ok(Some((user, login.password.expose().to_owned())))
}
