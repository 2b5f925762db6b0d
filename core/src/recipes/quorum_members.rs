use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};

use super::acquire::Take;
use super::ask::Ask;
use super::cell_handle::CellHandle;
use super::hold::Hold;
use super::mutex::Mutex;
use super::one_server::use_one_server;
use super::server_count::ask as ask_server;
use crate::client::Client;
use crate::contracts::Patience;
use crate::decide::quorum::majority;
use crate::decide::trial::Terms;
use crate::error::{Error, ErrorKind, Result};
use crate::server_trial::Counted;

pub(super) struct QuorumMembers {
    // In the order in which they were given.
    pub(super) members: Vec<Mutex>,
    // Places in `members`, in canonical order.
    pub(super) order: Vec<usize>,
    pub(super) markers: Vec<CellHandle>,
    pub(super) terms: Arc<Terms>,
    // Whether servers that may have forgotten are left out.
    pub(super) guarded: bool,
    // Whether the members must be different servers.
    pub(super) apart: bool,
}

pub(super) enum Taken {
    Held(Hold),
    Refused,
    /// Its server counts only after this time.
    After(Duration),
}

impl QuorumMembers {
    pub(super) fn key(&self) -> &str {
        self.members[0].key()
    }

    /// Refuses two members on one server: its loss would be the loss of both.
    pub(super) async fn check_apart(&self) -> Result<()> {
        if !self.apart {
            return Ok(());
        }
        let clients: Vec<_> = self.members.iter().map(|member| member.handle.client()).collect();
        let pairs = clients
            .iter()
            .enumerate()
            .flat_map(|(at, one)| clients[..at].iter().map(move |other| (one, other)));
        let checked =
            pairs.map(async |(one, other)| use_one_server(one, other).await.then_some((one, other)));
        let Some((one, other)) = join_all(checked).await.into_iter().flatten().next() else { return Ok(()) };
        let named = |client: &Client| client.name.clone().unwrap_or_default();
        let why = format!(
            "the coordinators {:?} and {:?} are one server: a quorum needs a different server for each member",
            named(other),
            named(one)
        );
        Err(Error::invalid("members", why).on(self.key()))
    }

    /// Returns a bound that is longer than any try takes.
    pub(super) fn tries_within(&self) -> Duration {
        let longest = self.members.iter().map(|member| member.handle.client().request_timeout).max();
        self.terms.longest_ttl.saturating_add(longest.unwrap_or_default().saturating_mul(3))
    }

    pub(super) fn need(&self) -> usize {
        majority(self.members.len())
    }

    /// Acquires one member, if its server counts.
    pub(super) fn take_member(
        self: &Arc<Self>,
        member: usize,
        ask: Ask,
    ) -> BoxFuture<'static, (usize, Result<Taken>)> {
        let lock = Arc::clone(self);
        let client = Arc::clone(self.members[member].handle.client());
        Box::pin(async move {
            let key = lock.key().to_owned();
            let (operation, patience) = (ask.operation, ask.patience);
            let counted = async move { lock.counted(member, ask).await };
            let taken = match patience {
                // A member that answers later joins the hold, which may be on another runtime.
                Patience::Try => client.cleanup.at_home(Box::pin(counted)).await,
                Patience::Wait => counted.await,
            };
            (member, taken.map_err(|error| error.in_operation(operation).on(key)))
        })
    }

    async fn counted(&self, member: usize, wanted: Ask) -> Result<Taken> {
        let Self { members, markers, terms, guarded, .. } = self;
        let (mutex, marker) = (&members[member], &markers[member]);
        let client = mutex.handle.client();
        let proves = |lease: &_| !guarded || client.trial.proves(&*client.backend, terms, lease);
        if !proves(&client.lease())
            && let Counted::After(time) = ask_server(marker, terms).await?
        {
            return Ok(Taken::After(time));
        }
        let Some(held) = Arc::clone(&mutex.handle).take(wanted).await? else { return Ok(Taken::Refused) };
        let Some(node) = held.tenure().node() else { return Ok(Taken::Refused) };
        let lease = node.state().lease();
        // The server may have restarted since, or the lease may be new.
        if !proves(lease) {
            if let Counted::After(time) = ask_server(marker, terms).await? {
                return Ok(Taken::After(time));
            }
            if !proves(lease) {
                let why = "the server restarted during the call and may have forgotten holds: try again";
                return Err(Error::new(ErrorKind::Unavailable, why));
            }
        }
        if lease.ttl() > terms.longest_ttl {
            let why = format!(
                "is {:?}, but a server granted a TTL of {:?}: raise longest_ttl on all clients",
                terms.longest_ttl,
                lease.ttl()
            );
            return Err(Error::invalid("longest_ttl", why));
        }
        Ok(Taken::Held(held))
    }
}
