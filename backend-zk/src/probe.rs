//! Distinguishes a ZooKeeper from another server before a session is opened: the client crate reports only a
//! timeout.

use latchwork_core::backend::{
    Hosts, PATIENCE, Probed, Scheme, Transport, exchange, find_server, greet, is_of_zookeeper,
};
use latchwork_core::facts::Role;
use latchwork_core::{Error, ErrorKind, Result, seen};
use tokio::time::timeout;

use crate::config::{NAME, Settings};

/// The only word that a server allows by default.
const WORD: &[u8] = b"srvr";

/// The first version with container nodes whose removal is without a bug.
const OLDEST: (u32, u32, u32) = (3, 5, 3);

/// Probes until a host serves. The caller bounds the time.
///
/// # Errors
/// The most specific error of the hosts: `WrongServer`, `Misconfigured` (too old), otherwise `Unavailable` if
/// none serves yet.
pub(crate) async fn probe(settings: &Settings) -> Result<()> {
    let Settings { hosts, transport, clock, .. } = settings;
    let scheme = Scheme { backend: NAME, hosts: Hosts::Servers, tls: transport.is_tls() };
    let probe =
        async |host: &str| match greet((host, &transport.apart(), scheme), WORD, |_| false, is_of_zookeeper)
            .await?
        {
            Some(answer) => {
                let answer = String::from_utf8_lossy(&answer);
                check_one_group(hosts.len(), host, &answer)?;
                judge(host, &answer)
            }
            None => Ok(Probed::Waits(Error::new(ErrorKind::Unavailable, format!("{host}: {HUNG_UP}")))),
        };
    find_server(hosts, clock, probe).await
}

/// With TLS, a ZooKeeper without a quorum hangs up without a word (Netty).
const HUNG_UP: &str = "closes the connection: it has no quorum, or it accepts no more connections (maxClientCnxns), or it is a \
                       proxy whose ZooKeeper is down, or it is not ZooKeeper";

pub(crate) async fn said(host: &str, transport: &Transport) -> Option<String> {
    let transport = transport.apart();
    let answer = timeout(PATIENCE, exchange(host, &transport, WORD, |_| false)).await.ok()?.ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

pub(crate) async fn ask(host: &str, transport: &Transport) -> Option<(Role, i64)> {
    read_state(&said(host, transport).await?)
}

pub(crate) fn read_state(answer: &str) -> Option<(Role, i64)> {
    let last = i64::from_str_radix(value(answer, "Zxid:")?.strip_prefix("0x")?, 16).ok()?;
    Some((role(answer)?, last))
}

pub(crate) fn role(answer: &str) -> Option<Role> {
    match value(answer, "Mode:")? {
        "standalone" => Some(Role::Alone),
        "leader" => Some(Role::Leader),
        "follower" => Some(Role::Follower),
        "observer" => Some(Role::Observer),
        _ => None,
    }
}

pub(crate) fn version(answer: &str) -> Option<&str> {
    value(answer, "Zookeeper version:")?.split(['-', ',', ' ']).next()
}

fn value<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

pub(crate) fn check_one_group(hosts: usize, host: &str, answer: &str) -> Result<()> {
    if hosts > 1 && role(answer) == Some(Role::Alone) {
        let what = format!(
            "{host} is a standalone ZooKeeper, and the URL names {hosts} hosts: servers without an ensemble would \
             each admit a holder, so name one host, or the servers of one ensemble"
        );
        return Err(Error::new(ErrorKind::Misconfigured, what));
    }
    Ok(())
}

pub(crate) fn judge(host: &str, answer: &str) -> Result<Probed> {
    let waits = |what: &str| Ok(Probed::Waits(Error::new(ErrorKind::Unavailable, format!("{host}: {what}"))));
    if answer.starts_with("srvr is not executed") {
        let what = "the version of this server is not checked: 4lw.commands.whitelist does not allow srvr";
        seen::advice(NAME, host, &what);
        return Ok(Probed::Serves);
    }
    if answer.starts_with("This ZooKeeper instance") {
        return waits("this server is not serving: it has no quorum");
    }
    if answer.contains("Mode: read-only") {
        return waits("this server is read-only: it is cut off from its quorum");
    }
    match version(answer).and_then(parse) {
        Some(version) if version < OLDEST => {
            let dotted = |(major, minor, patch)| format!("{major}.{minor}.{patch}");
            let why =
                format!("{host} is ZooKeeper {}, at least {} is needed", dotted(version), dotted(OLDEST));
            Err(Error::new(ErrorKind::Misconfigured, why))
        }
        _ => Ok(Probed::Serves),
    }
}

fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(answer: &str) -> Option<ErrorKind> {
        judge("h:1", answer).err().map(|error| error.kind())
    }

    #[test]
    fn a_zookeeper_without_a_quorum_is_waited_for() {
        for answer in [
            "This ZooKeeper instance is not currently serving requests\n",
            "Zookeeper version: 3.9.1, built on\nMode: read-only\n",
        ] {
            let Ok(Probed::Waits(error)) = judge("h:1", answer) else { panic!("{answer}") };
            assert!(error.to_string().contains("quorum"), "{error}");
        }
    }

    #[test]
    fn server_that_is_too_old_is_refused() {
        let modern = "Zookeeper version: 3.8.0-5a02a05, built on 2022-02-25 08:49 UTC\nMode: standalone\n";
        assert_eq!(kind(modern), None);
        assert_eq!(kind("srvr is not executed because it is not in the whitelist.\n"), None);
        assert_eq!(kind("Zookeeper version: 3.4.14-4c25d48, built on x\n"), Some(ErrorKind::Misconfigured));
    }

    #[test]
    fn standalone_server_among_several_hosts_is_refused() {
        let of = |mode: &str| format!("Zookeeper version: 3.8.0, built on x\nMode: {mode}\n");
        for (hosts, mode, refused) in
            [(1, "standalone", false), (2, "standalone", true), (3, "leader", false), (3, "follower", false)]
        {
            let kind = check_one_group(hosts, "h:1", &of(mode)).err().map(|error| error.kind());
            assert_eq!(kind, refused.then_some(ErrorKind::Misconfigured), "{mode} of {hosts}");
        }
    }

    #[test]
    fn the_role_and_the_last_transaction_of_a_server_are_read() {
        let answer = |mode: &str, zxid: &str| {
            read_state(&format!(
                "Zookeeper version: 3.8.0\nConnections: 1\nZxid: {zxid}\nMode: {mode}\nNode count: 5\n"
            ))
        };
        assert_eq!(answer("standalone", "0x1f"), Some((Role::Alone, 31)));
        assert_eq!(answer("leader", "0x100000000"), Some((Role::Leader, 1 << 32)));
        assert_eq!(answer("observer", "0x0"), Some((Role::Observer, 0)));
        for (mode, zxid) in
            [("read-only", "0x1"), ("leader", "1"), ("leader", "0xfffffffffffffffff"), ("", "")]
        {
            assert_eq!(answer(mode, zxid), None);
        }
        assert_eq!(read_state("This ZooKeeper instance is not currently serving requests\n"), None);
    }
}
