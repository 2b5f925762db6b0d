use std::collections::BTreeSet;
use std::fmt::Write as _;

use futures_util::future::try_join_all;

use super::{Ensemble, Role, Started};
use crate::binary::Binary;
use crate::link::Link;
use crate::local::Local;
use crate::options::Clocks;
use crate::ports::ClaimedPorts;
use crate::proxy::{Manners, Proxy};
use crate::tls::ServerTls;
use crate::{ServerError, probe};

/// For clients, for the quorum, for elections, and for TLS.
type MemberPorts = [u16; 4];

pub(super) async fn start(size: usize, tls: Option<&ServerTls>) -> Result<Started, ServerError> {
    let claimed = ClaimedPorts::take(4 * size)?;
    let ports: &[MemberPorts] = claimed.numbers.as_chunks().0;
    let mut links = Vec::new();
    for from in 0..size {
        for (to, [_, quorum, election, _]) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
            let proxy = async |port, introduce| {
                let manners = Manners { introduce, patient: true };
                let proxy = Proxy::start_with(format!("127.0.0.1:{port}"), manners).await;
                proxy.map_err(ServerError::io("starting a proxy"))
            };
            let proxies = vec![proxy(quorum, None).await?, proxy(election, Some(without_address)).await?];
            links.push(Link { from, to, proxies, door: None });
        }
    }
    let servers = ports.iter().enumerate().map(async |(id, own)| {
        let [client, .., tls_port] = *own;
        let mut lines = members(id, *own, &links);
        lines.extend(tls.map(|tls| tls.zookeeper(tls_port)));
        let tls_port = tls.map(|_| tls_port);
        Local::run(Binary::zookeeper_member(id + 1, client, tls_port, Clocks::Fast, &lines)?).await
    });
    let servers = try_join_all(servers).await?;
    Ok((servers, links, claimed))
}

pub(super) async fn role(addr: &str) -> Option<Role> {
    let said = probe::ask_in_time(addr, "srvr").await.ok()?;
    if said.contains("Mode: leader") {
        Some(Role::Leader)
    } else {
        said.contains("Mode: follower").then_some(Role::Follower)
    }
}

/// Logged by a server that has read a transaction with another digest than its data.
pub(super) const DIVERGED: &str = "Digests are not matching";

pub(super) async fn ephemerals(addr: &str) -> Option<BTreeSet<String>> {
    let said = probe::ask_in_time(addr, "dump").await.ok()?;
    let (_, nodes) = said.split_once("Sessions with Ephemerals")?;
    let mut session = "";
    let mut found = BTreeSet::new();
    for line in nodes.lines() {
        match line.strip_prefix('\t') {
            Some(path) if path.starts_with('/') => drop(found.insert(format!("{path} of {session}"))),
            _ => session = line.trim_end_matches(':'),
        }
    }
    Some(found)
}

/// A server names itself by its own ports, and others by their proxies.
fn members(id: usize, [_, quorum, election, _]: MemberPorts, links: &[Link]) -> String {
    let tick = Clocks::Fast.zookeeper_tick().as_millis();
    let sync = Ensemble::SYNC_LIMIT.as_millis() / tick;
    let mut lines = format!("initLimit={}\nsyncLimit={sync}\n", sync * 3);
    // The longest pause, in milliseconds, before a server without others asks again. The default is a minute.
    lines.push_str("fastleader.maxNotificationInterval=800\n");
    let mut member = |id: usize, quorum, election| {
        let _ = writeln!(lines, "server.{}=127.0.0.1:{quorum}:{election}", id + 1);
    };
    member(id, quorum, election);
    for link in links.iter().filter(|link| link.from == id) {
        member(link.to, link.proxies[0].addr().port(), link.proxies[1].addr().port());
    }
    lines
}

/// The greeting is version (negative), number, length, address. An older release sends only the number.
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
    fn greeting_without_address_keeps_number_and_following_bytes() {
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
