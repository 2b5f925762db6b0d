use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, try_join_all};
use latchwork_core::backend::clients_address;
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::{Acls, Client, CreateMode};

use super::memory;
use super::proxied::{Admin, ServerTestbed};
use crate::testbed::{of_a_case, stamps};
use latchwork_servers::{Clocks, Ensemble, Server, ask};

/// Creates the testbed of a server.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn zookeeper_testbed(server: Server) -> Result<ServerTestbed> {
    let tick = server.clocks().zookeeper_tick();
    Ok(over(server.url(), vec![server.addr().to_owned()], tick)?.keeping(server))
}

/// Creates the testbed of an ensemble, which ends with it.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn zookeeper_ensemble_testbed(ensemble: Arc<Ensemble>) -> Result<ServerTestbed> {
    let hosts = (0..ensemble.size()).map(|server| ensemble.addr(server)).collect();
    let testbed = over(&ensemble.url(), hosts, Clocks::Fast.zookeeper_tick())?;
    Ok(testbed.called("zookeeper-3").keeping(ensemble))
}

fn over(url: &str, hosts: Vec<String>, tick: Duration) -> Result<ServerTestbed> {
    // Sessions expire in buckets of a tick, checked each tick.
    let expiry_bound = tick * 2;
    let mut testbed = ServerTestbed::new(
        url,
        hosts,
        latchwork_zookeeper::connector(),
        CAPABILITIES,
        expiry_bound,
        "/exact-",
        open_admin,
    )?;
    testbed.config.options.set_duration("tick", tick);
    Ok(testbed)
}

const CAPABILITIES: Capabilities = Capabilities {
    clean_try: false,
    survives_failover: true,
    idle_cells: false,
    lease_left: false,
    ..memory::CAPABILITIES
};

fn open_admin(addr: String) -> BoxFuture<'static, Result<Box<dyn Admin>>> {
    Box::pin(async move {
        let client = Client::connector()
            .with_session_timeout(Duration::from_secs(30))
            .connect(&addr)
            .await
            .map_err(unavailable)?;
        Ok(Box::new(ZooKeeperAdmin { client, addr }) as Box<dyn Admin>)
    })
}

struct ZooKeeperAdmin {
    client: Client,
    addr: String,
}

fn path(queue: &Address) -> String {
    match queue.namespace() {
        Some(namespace) => format!("/{namespace}/{}/{}", queue.kind().as_str(), queue.coded()),
        None => queue.coded().to_owned(),
    }
}

impl ZooKeeperAdmin {
    async fn children(&self, path: &str) -> Result<Vec<String>> {
        match self.client.list_children(path).await {
            Ok(names) => Ok(names),
            Err(zookeeper_client::Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(unavailable(error)),
        }
    }
}

#[async_trait]
impl Admin for ZooKeeperAdmin {
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>> {
        let mut queues = names.to_vec();
        for namespace in of_a_case(namespace) {
            for kind in self.children(&format!("/{namespace}")).await? {
                let kind = format!("/{namespace}/{kind}");
                if ["/client", "/released"].iter().any(|own| kind.ends_with(own)) {
                    queues.push(kind);
                    continue;
                }
                let keys = self.children(&kind).await?;
                queues.extend(keys.into_iter().map(|key| format!("{kind}/{key}")));
            }
        }
        let mut contents = Vec::new();
        for queue in queues {
            let nodes = self.children(&queue).await?;
            contents.extend(nodes.into_iter().map(|node| format!("{queue}/{node}")));
        }
        // Stamps (with the child of a cell) and the suite's foreign entry may stay.
        let stamps: Vec<_> = stamps(namespace)?.iter().map(|stamp| format!("{}/", path(stamp))).collect();
        contents.retain(|path| {
            !path.ends_with("/foreign") && !stamps.iter().any(|stamp| path.starts_with(stamp.as_str()))
        });
        Ok(contents)
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        let queue = path(queue);
        // Another server may have created the node.
        self.client.sync("/").await.map_err(unavailable)?;
        for name in self.children(&queue).await? {
            let node = format!("{queue}/{name}");
            let Ok((data, stat)) = self.client.get_data(&node).await else { continue };
            // A downgraded reader has the writer's number in its data.
            let was = format!("\0writer {sequence} ");
            let turned = data.windows(was.len()).any(|part| part == was.as_bytes());
            if turned || u64::try_from(stat.czxid) == Ok(sequence) {
                return self.client.delete(&node, None).await.map_err(unavailable);
            }
        }
        Err(Error::invalid("sequence", "no such node"))
    }

    async fn plant(&self, queue: &Address) -> Result<()> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let node = format!("{}/foreign", path(queue));
        self.client.create(&node, b"what is this", &options).await.map(drop).map_err(unavailable)
    }

    async fn end_lease(&self, namespace: &str, label: &str) -> Result<Vec<Duration>> {
        self.client.sync("/").await.map_err(unavailable)?;
        let (mut sessions, mut left) = (BTreeSet::new(), Vec::new());
        for namespace in of_a_case(namespace) {
            let clients = path(&clients_address(&namespace)?);
            for name in self.children(&clients).await? {
                let Ok((data, stat)) = self.client.get_data(&format!("{clients}/{name}")).await else {
                    continue;
                };
                if data.split(|&byte| byte == 0).next() == Some(label.as_bytes()) {
                    sessions.insert(stat.ephemeral_owner);
                }
            }
        }
        for session in sessions {
            left.push(session_left(&self.addr, session).await?);
            close_session(&self.addr, session).await.map_err(|error| {
                Error::new(ErrorKind::Unavailable, format!("session {session:#x} is not closed"))
                    .because(error)
            })?;
        }
        Ok(left)
    }

    async fn requests(&self) -> Result<u64> {
        let of_each = self.addr.split(',').map(packets_received);
        Ok(try_join_all(of_each).await?.into_iter().sum())
    }
}

async fn packets_received(addr: &str) -> Result<u64> {
    let answer = ask(addr, "mntr").await.map_err(|error| {
        Error::new(ErrorKind::Unavailable, "the server does not answer mntr").because(error)
    })?;
    let packets = answer.lines().find_map(|line| line.strip_prefix("zk_packets_received"));
    packets
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| Error::new(ErrorKind::Misconfigured, "mntr is not allowed on this server"))
}

/// The leader lists the second of each expiry, so at most a second too long.
async fn session_left(addr: &str, session: i64) -> Result<Duration> {
    let named = format!("\t{session:#x}");
    for addr in addr.split(',') {
        let dump = ask(addr, "dump").await;
        let dump = dump.map_err(|error| Error::new(ErrorKind::Unavailable, "no dump").because(error))?;
        let lines = dump.lines().take_while(|line| !line.starts_with("ephemeral nodes"));
        let mut expires = None;
        for line in lines {
            if let Some((_, date)) = line.split_once(" expire at ") {
                expires = minutes(date);
            } else if line == named {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                // In the server's time zone. Zones differ by quarters of an hour.
                let left = expires.map(|second| ((second + 1) * 1000 + QUARTER - now % QUARTER) % QUARTER);
                let left = left.filter(|left| *left < QUARTER / 2).unwrap_or(0);
                return Ok(Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)));
            }
        }
    }
    Err(Error::new(ErrorKind::Misconfigured, format!("no server lists when session {session:#x} expires")))
}

const QUARTER: u128 = 15 * 60 * 1000;

/// Since the last quarter of an hour, from a date such as `Sun Nov 29 03:04:05 UTC 2026`.
fn minutes(date: &str) -> Option<u128> {
    let mut time = date.split(' ').nth(3)?.split(':').skip(1);
    let mut next = || time.next()?.parse::<u128>().ok();
    let (minutes, seconds) = (next()?, next()?);
    Some((minutes * 60 + seconds) % (15 * 60))
}

/// The crate attaches only to its own sessions.
async fn close_session(addr: &str, session: i64) -> std::io::Result<()> {
    let addr = addr.split(',').next().unwrap_or_default();
    let mut stream = TcpStream::connect(addr).await?;
    let mut connect = Vec::new();
    connect.extend(0_i32.to_be_bytes()); // the version of the protocol
    connect.extend(0_i64.to_be_bytes()); // the last transaction that was seen
    connect.extend(10_000_i32.to_be_bytes()); // the timeout, in milliseconds
    connect.extend(session.to_be_bytes());
    connect.extend(16_i32.to_be_bytes());
    connect.extend(password(session));
    connect.push(0); // not read-only
    let answer = trip(&mut stream, &connect).await?;
    if answer.get(8..16) != Some(&session.to_be_bytes()[..]) {
        return Err(std::io::Error::other("the server does not know the session"));
    }
    let close = [1_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
    trip(&mut stream, &close).await.map(drop)
}

async fn trip(stream: &mut TcpStream, packet: &[u8]) -> std::io::Result<Vec<u8>> {
    let length = u32::try_from(packet.len()).expect("a small packet").to_be_bytes();
    stream.write_all(&[&length[..], packet].concat()).await?;
    let mut answer = vec![0; usize::try_from(stream.read_u32().await?).expect("a small packet")];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Servers compute it from the id with Java's random numbers, so each of an ensemble knows it.
fn password(session: i64) -> [u8; 16] {
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((session.cast_unsigned() ^ 0xB341_5C00) ^ 0x5_DEEC_E66D) & MASK;
    let mut password = [0; 16];
    for word in password.chunks_exact_mut(4) {
        state = (state.wrapping_mul(0x5_DEEC_E66D) + 0xB) & MASK;
        word.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    password
}

fn unavailable(error: zookeeper_client::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the operator's session").because(error)
}
