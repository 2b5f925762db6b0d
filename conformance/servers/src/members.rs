//! The servers of an ensemble as they see each other: through proxies.

use std::fmt::Write as _;
use std::time::Duration;

use crate::options::Clocks;
use crate::proxy::Proxy;

/// How long a server goes on without having heard from its leader.
pub(crate) const SYNC_LIMIT: Duration = Duration::from_secs(3);

/// The way that server `from` takes to server `to`.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) quorum: Proxy,
    pub(crate) election: Proxy,
}

/// The ports of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) client: u16,
    pub(crate) quorum: u16,
    pub(crate) election: u16,
}

impl Link {
    pub(crate) fn proxies(&self) -> [&Proxy; 2] {
        [&self.quorum, &self.election]
    }
}

/// The members as server `id` is to see them: itself where it listens, the others behind their
/// proxies.
pub(crate) fn members(id: usize, own: Ports, links: &[Link]) -> String {
    let tick = Clocks::Fast.zookeeper_tick().as_millis();
    let sync = SYNC_LIMIT.as_millis() / tick;
    let mut lines = format!("initLimit={}\nsyncLimit={sync}\n", sync * 3);
    // A server that was alone asks the others again this soon, in milliseconds, not after up to a
    // minute.
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

/// Takes the address out of the greeting on an election port: version (negative), number, length,
/// address. What is left, the number alone, is the greeting of an older release.
pub(crate) fn without_address(greeting: &mut Vec<u8>) {
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
