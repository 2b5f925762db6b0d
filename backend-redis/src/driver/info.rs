use std::borrow::Cow;

use latchwork_core::{Error, ErrorKind, Eviction, Result};

/// The oldest version with all commands of the scripts.
const OLDEST: (u32, u32) = (6, 2);

/// Whether the server evicts locks under memory pressure. `info`: `None` if INFO is forbidden.
///
/// # Errors
/// `Misconfigured` for a version that is too old, a node of a cluster, a Sentinel, or a replica. If `strict`,
/// also for a server that evicts locks or does not report whether it does.
pub(crate) fn judge(info: Option<&str>, strict: bool, in_cluster: bool) -> Result<Eviction> {
    let eviction = match info {
        Some(info) => {
            let info = Info(info);
            info.refuse_what_cannot_be_used(in_cluster)?;
            info.eviction()
        }
        None => Eviction::Unknown,
    };
    match eviction {
        Eviction::Possible if strict => {
            let policy = info.and_then(|info| Info(info).get("maxmemory_policy")).unwrap_or("?");
            misconfigured(format!("strict: maxmemory-policy {policy} evicts locks: set noeviction"))
        }
        Eviction::Unknown if strict => misconfigured(
            "strict: this server does not say whether it evicts locks: grant +info to this login",
        ),
        eviction => Ok(eviction),
    }
}

pub(crate) fn is_replica(info: &str) -> bool {
    Info(info).get("role") == Some("slave")
}

/// New after each restart.
pub(crate) fn run_id(info: &str) -> Option<String> {
    Info(info).get("run_id").filter(|id| !id.is_empty()).map(str::to_owned)
}

fn misconfigured<T>(what: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(Error::new(ErrorKind::Misconfigured, what))
}

#[derive(Clone, Copy)]
pub(crate) struct Info<'a>(pub(crate) &'a str);

impl<'a> Info<'a> {
    pub(crate) fn get(&self, field: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'))
    }

    fn eviction(&self) -> Eviction {
        match (self.get("maxmemory"), self.get("maxmemory_policy")) {
            (Some("0"), _) | (_, Some("noeviction")) => Eviction::Never,
            (Some(_), Some(_)) => Eviction::Possible,
            _ => Eviction::Unknown,
        }
    }

    fn refuse_what_cannot_be_used(&self, in_cluster: bool) -> Result<()> {
        if let Some(version) = self.get("redis_version") {
            let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
            if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST {
                return misconfigured(format!("the server is Redis {version}; 6.2 or newer is needed"));
            }
        }
        let clustered = self.get("redis_mode") == Some("cluster") || self.get("cluster_enabled") == Some("1");
        if clustered && !in_cluster {
            return misconfigured("the server is in a Redis Cluster: connect with redis-cluster://h1,h2");
        }
        if in_cluster && !clustered {
            return misconfigured("the server is not in a Redis Cluster: connect with redis://host");
        }
        if self.get("redis_mode") == Some("sentinel") {
            return misconfigured("the server is a Sentinel: connect with redis-sentinel://h1,h2/service");
        }
        if is_replica(self.0) {
            let part = |field| self.get(field).unwrap_or("?");
            let master = format!("{}:{}", part("master_host"), part("master_port"));
            return misconfigured(format!("the server is a replica of {master}: connect to the master"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_judgements() {
        const GOOD: &str = "redis_version:6.2.14\r\nredis_mode:standalone\r\nrole:master\r\n";
        let memory =
            |size: &str, policy: &str| format!("{GOOD}maxmemory:{size}\r\nmaxmemory_policy:{policy}\r\n");
        for (size, policy, expected) in [
            ("0", "allkeys-lru", Eviction::Never),
            ("1048576", "noeviction", Eviction::Never),
            ("1048576", "volatile-lru", Eviction::Possible),
        ] {
            assert_eq!(
                judge(Some(&memory(size, policy)), false, false).unwrap(),
                expected,
                "{size} {policy}"
            );
        }
        assert_eq!(judge(Some(GOOD), false, false).unwrap(), Eviction::Unknown);
        assert_eq!(judge(None, false, false).unwrap(), Eviction::Unknown);
        let evicting = memory("1048576", "volatile-lru");
        for (info, strict) in [
            (Some(evicting.as_str()), true),
            (None, true),
            (Some("redis_version:6.0.9"), false),
            (Some("redis_mode:cluster"), false),
            (Some("redis_mode:sentinel"), false),
            (Some("role:slave"), false),
        ] {
            let error = judge(info, strict, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{info:?}");
        }
    }
}
