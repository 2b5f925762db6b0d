//! Several ZooKeeper servers with fault proxies between them.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep};

use crate::proxy::{Direction, Manners, Proxy};

use super::binary::{AGAIN, ATTEMPTS, Binary, READY, free_ports, port_taken};
use super::local::Local;
use super::options::Clocks;
use super::{Kind, ServerError, probe};

/// What a server of an ensemble says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
}

/// Three (or more) ZooKeeper servers of this machine, each of whose connections to another passes a [`Proxy`]: any of them can be
/// cut off from the rest and healed.
///
/// Servers are numbered from 0. A follower that is cut off goes on serving reads to its clients until its sync limit
/// ([`Ensemble::SYNC_LIMIT`]) has passed, while its leader counts down their sessions: the window in which a client must not
/// believe what it reads.
///
/// A server that is dialled by one with a lower number hangs up and calls back, at the address which the other named: past the
/// proxy. So the proxies between them leave that address out, as servers before release 3.5 did, and it calls back where its own
/// configuration says: at a proxy.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Local>,
    links: Vec<Link>,
}

/// The way that server `from` takes to server `to`.
#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    quorum: Proxy,
    election: Proxy,
}

/// The ports of one server.
#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    quorum: u16,
    election: u16,
}

impl Ensemble {
    /// How long a server of an ensemble with fast clocks goes on without having heard from its leader.
    pub const SYNC_LIMIT: Duration = Duration::from_secs(3);

    /// Starts an ensemble of `size` ZooKeeper servers with fast clocks, and waits until all of them serve.
    ///
    /// # Cancel safety
    /// Cancelled, it leaves no server behind.
    ///
    /// # Errors
    /// As [`Server::start`](super::Server::start): the servers are programs of this machine, always.
    pub async fn zookeeper(size: usize) -> Result<Ensemble, ServerError> {
        let mut attempt = 1;
        loop {
            match Self::start(size).await {
                Err(ServerError::Died { log, .. }) if port_taken(&log) && attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    async fn start(size: usize) -> Result<Ensemble, ServerError> {
        let ports = (0..size)
            .map(|_| free_ports().map(|[client, quorum, election]| Ports { client, quorum, election }))
            .collect::<Result<Vec<_>, _>>()?;
        let mut links = Vec::new();
        for from in 0..size {
            for (to, ports) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
                let proxy = async |port, introduce| {
                    let manners = Manners { introduce, patient: true };
                    let proxy = Proxy::start_with(format!("127.0.0.1:{port}"), manners).await;
                    proxy.map_err(ServerError::io("starting a proxy"))
                };
                let quorum = proxy(ports.quorum, None).await?;
                let election = proxy(ports.election, Some(without_address)).await?;
                links.push(Link { from, to, quorum, election });
            }
        }
        let servers = ports.iter().enumerate().map(async |(id, own)| {
            let binary =
                Binary::zookeeper_member(id + 1, own.client, Clocks::Fast, &members(id, *own, &links))?;
            let process = binary.run().await?;
            Ok::<_, ServerError>(Local::new(Kind::Zookeeper, binary, process))
        });
        let servers = try_join_all(servers).await?;
        Ok(Ensemble { servers, links })
    }

    /// How many servers there are.
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// The URL that names all servers.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.servers.iter().map(|server| server.binary.addr()).collect();
        format!("zookeeper://{}", addrs.join(","))
    }

    /// The URL of one server.
    ///
    /// # Panics
    /// When there is no such server, like every method that takes one.
    pub fn server_url(&self, server: usize) -> String {
        format!("zookeeper://{}", self.addr(server))
    }

    /// The `host:port` of one server's clients.
    pub fn addr(&self, server: usize) -> String {
        self.servers[server].binary.addr()
    }

    /// Waits until exactly one server leads and a majority serves, and says which one it is.
    ///
    /// # Cancel safety
    /// Cancel safe, like all waits here.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn leader(&self) -> Result<usize, ServerError> {
        self.until("had no leader", async || {
            let roles = self.roles().await;
            let majority = roles.iter().flatten().count() > roles.len() / 2;
            let mut leaders = (0..roles.len()).filter(|server| roles[*server] == Some(Role::Leader));
            leaders.next().filter(|_| majority && leaders.next().is_none())
        })
        .await
    }

    /// The servers that follow a leader now.
    pub async fn followers(&self) -> Vec<usize> {
        let roles = self.roles().await;
        (0..roles.len()).filter(|server| roles[*server] == Some(Role::Follower)).collect()
    }

    /// Whether a server serves its clients now, as leader or follower, be it cut off or not.
    pub async fn serves(&self, server: usize) -> bool {
        self.role(server).await.is_some()
    }

    /// Waits until a server serves.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn wait_until_serving(&self, server: usize) -> Result<(), ServerError> {
        self.until("did not have this server back", async || self.serves(server).await.then_some(())).await
    }

    /// Waits until a server has stopped serving.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn wait_until_not_serving(&self, server: usize) -> Result<(), ServerError> {
        self.until("went on with a server that was to give up", async || {
            (!self.serves(server).await).then_some(())
        })
        .await
    }

    /// Cuts a server off from all others, as a network partition does: nothing passes, nothing is closed. Its clients still
    /// reach it.
    pub fn cut(&self, server: usize) {
        assert!(server < self.size(), "there is no server {server}");
        self.hold(|link| link.from == server || link.to == server);
    }

    /// Cuts the way between two servers only.
    pub fn cut_between(&self, one: usize, other: usize) {
        assert!(one.max(other) < self.size(), "there is no such server");
        self.hold(|link| (link.from, link.to) == (one, other) || (link.from, link.to) == (other, one));
    }

    /// Heals every cut. What was held goes on where both ends still want it.
    pub fn heal(&self) {
        for proxy in self.links.iter().flat_map(Link::proxies) {
            proxy.resume();
        }
    }

    /// Kills one server (SIGKILL).
    ///
    /// # Errors
    /// [`ServerError::Stopped`] if it does not run.
    pub async fn kill(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].kill().await
    }

    /// Starts a killed server again, with its data, and waits until it serves: so not while it is cut off, nor while others
    /// are missing for a majority.
    ///
    /// # Errors
    /// As [`Server::launch`](super::Server::launch).
    pub async fn launch(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].launch().await
    }

    fn hold(&self, cuts: impl Fn(&Link) -> bool) {
        for proxy in self.links.iter().filter(|link| cuts(link)).flat_map(Link::proxies) {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    async fn role(&self, server: usize) -> Option<Role> {
        // No answer is an answer: it does not serve.
        let said = probe::four_letters(&self.addr(server), "srvr").await.ok()?;
        if said.contains("Mode: leader") {
            Some(Role::Leader)
        } else {
            said.contains("Mode: follower").then_some(Role::Follower)
        }
    }

    async fn roles(&self) -> Vec<Option<Role>> {
        join_all((0..self.size()).map(|server| self.role(server))).await
    }

    /// Asks again and again, since no server announces its role.
    async fn until<T>(
        &self,
        what: &'static str,
        mut reached: impl AsyncFnMut() -> Option<T>,
    ) -> Result<T, ServerError> {
        let deadline = Instant::now() + READY;
        loop {
            if let Some(reached) = reached().await {
                return Ok(reached);
            }
            if Instant::now() > deadline {
                return Err(ServerError::Ensemble { what, waited: READY, states: self.states().await });
            }
            sleep(AGAIN).await;
        }
    }

    /// What each server says now, and the end of its log.
    async fn states(&self) -> String {
        let mut states = String::new();
        for (server, role) in self.roles().await.into_iter().enumerate() {
            let log = self.servers[server].log_tail();
            // Writing to a String cannot fail.
            let _ = writeln!(states, "\nserver {server}: {role:?}\n{log}");
        }
        states
    }
}

impl Link {
    fn proxies(&self) -> [&Proxy; 2] {
        [&self.quorum, &self.election]
    }
}

/// The members as server `id` is to see them: itself where it listens, the others behind their proxies.
fn members(id: usize, own: Ports, links: &[Link]) -> String {
    let tick = Clocks::Fast.zookeeper_tick().as_millis();
    let sync = Ensemble::SYNC_LIMIT.as_millis() / tick;
    let mut lines = format!("initLimit={}\nsyncLimit={sync}\n", sync * 3);
    // A server that was alone asks the others again this soon, in milliseconds, not after up to a minute.
    lines.push_str("fastleader.maxNotificationInterval=800\n");
    let mut member = |id: usize, quorum, election| {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "server.{}=127.0.0.1:{quorum}:{election}", id + 1);
    };
    member(id, own.quorum, own.election);
    for Link { to, quorum, election, .. } in links.iter().filter(|link| link.from == id) {
        member(*to, quorum.addr().port(), election.addr().port());
    }
    lines
}

/// Takes the address out of the greeting on an election port: version (negative), number, length, address. What is left, the
/// number alone, is the greeting of an older release.
fn without_address(greeting: &mut Vec<u8>) {
    const VERSION: usize = 8;
    const NUMBER: usize = 8;
    const LENGTH: usize = 4;
    let Some((head, _)) = greeting.split_first_chunk::<{ VERSION + NUMBER + LENGTH }>() else { return };
    let newer = head[0] & 0x80 != 0;
    let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
    let end = head.len() + length;
    if newer && end <= greeting.len() {
        greeting.drain(VERSION + NUMBER..end);
        greeting.drain(..VERSION);
    }
}

#[cfg(test)]
mod tests {
    use super::without_address;

    #[test]
    fn a_greeting_keeps_the_number_and_what_follows_it() {
        let address = b"127.0.0.1:3888";
        let mut greeting = (-65_536_i64).to_be_bytes().to_vec();
        greeting.extend(3_i64.to_be_bytes());
        greeting.extend((address.len() as u32).to_be_bytes());
        greeting.extend(address);
        greeting.extend(b"next");
        without_address(&mut greeting);
        assert_eq!(greeting, [&3_i64.to_be_bytes()[..], b"next"].concat());
    }

    #[test]
    fn an_old_greeting_and_an_incomplete_one_stay_as_they_are() {
        let mut old = 3_i64.to_be_bytes().to_vec();
        old.extend([0; 20]);
        let mut incomplete = (-65_536_i64).to_be_bytes().to_vec();
        incomplete.extend(3_i64.to_be_bytes());
        incomplete.extend(100_u32.to_be_bytes());
        for greeting in [old, incomplete] {
            let mut changed = greeting.clone();
            without_address(&mut changed);
            assert_eq!(changed, greeting);
        }
    }
}
