use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, KvClient, ResponseHeader};
use latchwork_core::backend::{LinkLog, SingleFlight, Throttle, Transport};
use latchwork_core::seen::{Rechecks, Requests};
use latchwork_core::{Error, Logins};
use tokio::runtime::Handle;

use super::balancer::channel;
use super::encode::unsigned;
use super::request_kind::RequestKind;
use crate::config::{NAME, Settings};
use crate::error::{Answer, Failure, as_harmless};
use crate::incarnation::{Incarnations, Known};

/// A whole queue of 1,000 nodes with the longest labels.
const LARGEST_ANSWER: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) member: u64,
    /// 0: it knows no leader.
    pub(crate) leader: u64,
    pub(crate) is_learner: bool,
    /// The most bytes that it stores; 0 if it does not report that.
    pub(crate) quota: u64,
}

#[derive(Clone)]
pub(crate) struct Driver {
    pub(super) client: Client,
    // A clone of the whole client costs more.
    pub(super) kv: KvClient,
    pub(crate) request_timeout: Duration,
    pub(super) logins: Logins,
    // Reports why TLS made no connection.
    pub(super) transport: Transport,
    pub(super) spare_servers: usize,
    // Bounds requests about keys, so that renewals do not wait for them.
    pub(super) throttle: Arc<Throttle>,
    pub(crate) link: Arc<LinkLog>,
    pub(super) requests: Arc<Requests>,
    pub(crate) rechecks: Arc<Rechecks>,
    // One background task logs in again for all requests. The number of log-ins follows.
    pub(super) log_ins: Arc<SingleFlight<Answer<()>>>,
    pub(super) runtime: Handle,
    pub(super) logged_in: Arc<AtomicU64>,
    pub(super) incarnations: Arc<Incarnations>,
    // A readable key that no client writes.
    pub(super) scratch: Arc<str>,
}

#[cfg(test)]
impl Driver {
    pub(crate) async fn of(server: &latchwork_conformance::servers::Server) -> Self {
        Self::logged_in_to(server, None).await
    }

    pub(crate) async fn logged_in_to(
        server: &latchwork_conformance::servers::Server,
        login: Option<(String, latchwork_core::Secret)>,
    ) -> Self {
        let mut config = latchwork_core::Config::new("etcd");
        (config.user, config.password) = login.unzip();
        let logins = Logins::of(&config);
        let endpoints = vec![server.addr().to_owned()];
        let settings = Settings {
            endpoints,
            logins,
            request_timeout: Duration::from_secs(5),
            fast_path: true,
            transport: Transport::default(),
            scratch: "scratch".to_owned(),
        };
        Self::connect(&settings).await.expect("the server is up")
    }
}

impl Driver {
    /// Makes the channel, and logs in if a user is given. The channel connects later.
    pub(crate) async fn connect(settings: &Settings) -> Answer<Self> {
        let options = ConnectOptions::new()
            // A watch or keepalive through a member without a leader must end, and not become silent.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        let channel = channel(settings)?;
        let login = login(&settings.logins, settings.request_timeout).await?;
        let client = match login {
            Some((user, password)) => {
                let with_login = options.clone().with_user(user, password);
                match Client::from_channel(channel.clone(), Some(with_login)).await.map_err(Failure::from) {
                    // The server needs no log-in yet. Later log-ins use the provider's login.
                    Err(failure) if settings.logins.may_change() && failure.asks_for_no_login() => {
                        Client::from_channel(channel, Some(options)).await?
                    }
                    opened => opened?,
                }
            }
            None => Client::from_channel(channel, Some(options)).await?,
        };
        // With other requests in between, one request may meet the same unreachable server several times.
        let spare_servers = 4 * (settings.endpoints.len() - 1);
        let kv = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
        Ok(Self {
            client,
            kv,
            request_timeout: settings.request_timeout,
            logins: settings.logins.clone(),
            transport: settings.transport.clone(),
            spare_servers,
            throttle: Arc::default(),
            link: Arc::new(LinkLog::new(NAME, settings.endpoints.join(","))),
            requests: Arc::new(Requests::new(NAME, RequestKind::LABELS)),
            rechecks: Arc::new(Rechecks::new(NAME)),
            log_ins: Arc::default(),
            runtime: Handle::current(),
            logged_in: Arc::default(),
            incarnations: Arc::default(),
            scratch: settings.scratch.as_str().into(),
        })
    }

    pub(crate) async fn status(&self) -> Answer<Status> {
        let status = self
            .call(RequestKind::STATE, |mut client| async move { client.status().await })
            .await
            .map_err(as_harmless)?;
        Ok(Status {
            version: status.version().to_owned(),
            member: status.header().map_or(0, ResponseHeader::member_id),
            leader: status.leader(),
            is_learner: status.is_learner(),
            quota: unsigned(status.db_size_quota()),
        })
    }

    pub(crate) async fn members(&self) -> Answer<(u32, u32)> {
        let list = self
            .call(RequestKind::MEMBERS, |mut client| async move { client.member_list().await })
            .await
            .map_err(as_harmless)?;
        let count = |learns| list.members().iter().filter(|member| member.is_learner() == learns).count();
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Ok((number(count(false)), number(count(true))))
    }

    /// `before`: what was known when the request was sent.
    pub(super) fn answered(&self, before: Known, header: Option<&ResponseHeader>) {
        if let Some(header) = header {
            self.incarnations.answered(
                before,
                self.link.host(),
                header.cluster_id(),
                unsigned(header.revision()),
            );
        }
    }
}

pub(super) async fn login(logins: &Logins, within: Duration) -> Answer<Option<(String, String)>> {
    let Some(login) = logins.now(within).await? else { return Ok(None) };
    let Some(user) = login.user else {
        return Err(Error::invalid(
            "credentials",
            "etcd logs in with a user and a password: the provider returned no user",
        )
        .into());
    };
    Ok(Some((user, login.password.expose().to_owned())))
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}
