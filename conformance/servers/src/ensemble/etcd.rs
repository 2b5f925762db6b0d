//! All members must name a member by one URL, although each link needs a separate proxy. So the URL is a
//! socket (`unix://`), which each member opens in its own folder.

use std::path::Path;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::{Role, Started};
use crate::binary::Binary;
use crate::door::Door;
use crate::link::Link;
use crate::local::Local;
use crate::ports::ClaimedPorts;
use crate::proxy::Proxy;
use crate::{ServerError, probe};

/// If shorter, a busy machine elects leaders without a fault. If longer, the shortest lease exceeds a second.
const ELECTION: Duration = Duration::from_millis(600);
const HEARTBEAT: Duration = Duration::from_millis(50);

fn door(member: usize) -> String {
    // etcd requires a port.
    format!("member-{member}:1")
}

fn peer_url(member: usize) -> String {
    format!("unix://{}", door(member))
}

pub(super) async fn start(size: usize) -> Result<Started, ServerError> {
    let claimed = ClaimedPorts::take(2 * size)?;
    let ports: Vec<_> = claimed.numbers.as_chunks().0.iter().map(|&[client, peer]| (client, peer)).collect();
    let shared = [cluster(size), format!("--initial-cluster-token={}", rand::random::<u64>())];
    let mut binaries = Vec::new();
    for (id, &(client, peer)) in ports.iter().enumerate() {
        let own = |folder: &Path| [own(folder, id, client, peer), shared.to_vec()].concat();
        binaries.push(Binary::etcd_member(client, own)?);
    }
    let mut links = Vec::new();
    for (from, binary) in binaries.iter().enumerate() {
        for (to, (_, peer)) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
            let proxy = Proxy::start(format!("127.0.0.1:{peer}")).await;
            let proxy = proxy.map_err(ServerError::io("starting a proxy"))?;
            let door = Door::at_file(&binary.folder().join(door(to)), proxy.addr());
            let door = Some(door.map_err(ServerError::io("opening a socket between servers"))?);
            links.push(Link { from, to, proxies: vec![proxy], door });
        }
    }
    let servers = try_join_all(binaries.into_iter().map(Local::run)).await?;
    Ok((servers, links, claimed))
}

pub(super) async fn role(addr: &str) -> Option<Role> {
    let question = "POST /v3/maintenance/status HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}";
    let said = probe::ask_in_time(addr, question).await.ok()?;
    let field = |name: &str| {
        let (_, rest) = said.split_once(&format!("\"{name}\":\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let leader = field("leader").filter(|leader| *leader != "0")?;
    Some(if field("member_id") == Some(leader) { Role::Leader } else { Role::Follower })
}

fn cluster(size: usize) -> String {
    let members: Vec<_> = (0..size).map(|member| format!("m{member}={}", peer_url(member))).collect();
    format!("--initial-cluster={}", members.join(","))
}

fn own(folder: &Path, id: usize, client: u16, peer: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client}");
    vec![
        format!("--name=m{id}"),
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls={}", peer_url(id)),
        format!("--heartbeat-interval={}", HEARTBEAT.as_millis()),
        format!("--election-timeout={}", ELECTION.as_millis()),
    ]
}
