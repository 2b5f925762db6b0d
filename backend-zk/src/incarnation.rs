//! Detects servers that have forgotten this client, for example because they restarted without their data.
//!
//! A server's transaction numbers rise as long as it keeps its data. A disconnected client asks for them
//! outside of any session (`srvr`), so it learns of such a loss before its lease ends.
//!
//! A server that lags, or a deposed leader, shows a lower number too. So more than half of the hosts must
//! show a lower number, one of them a leader. A single host must be standalone, because one address may hide
//! several servers. If a server does not answer `srvr`, or has made as many transactions again, the lease
//! expires unnoticed (`Expired`).

use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::backend::{Backoff, Pauses};
use latchwork_core::facts::Role;
use latchwork_core::seen;

use crate::config::NAME;
use crate::lease::SessionLease;
use crate::probe::ask;

const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn forgotten(lease: &SessionLease) {
    let (driver, settings) = (&lease.driver, &lease.settings);
    loop {
        driver.disconnected().await;
        // Clients that were cut off together spread their requests.
        tokio::time::sleep(Backoff::new(Pauses { first: PAUSE / 2, longest: PAUSE / 2 }).next()).await;
        while !driver.is_connected() {
            let answers = join_all(settings.hosts.iter().map(|host| ask(host, &settings.transport))).await;
            let seen = lease.seen();
            if !driver.is_connected() && is_another(&answers, seen) {
                let now = answers.iter().flatten().map(|(_, last)| *last).max();
                let unsigned = |zxid: i64| u64::try_from(zxid).unwrap_or(0);
                seen::forgot(NAME, &settings.hosts.join(","), unsigned(seen), now.map(unsigned));
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// `None`: the server did not answer.
fn is_another(answers: &[Option<(Role, i64)>], seen: i64) -> bool {
    let behind = || answers.iter().flatten().filter(|(_, last)| *last < seen);
    match answers {
        [one] => one.is_some_and(|(role, last)| role == Role::Alone && last < seen),
        several => {
            behind().count() > several.len() / 2
                && behind().any(|(role, _)| matches!(role, Role::Alone | Role::Leader))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lags_has_not_forgotten() {
        use Role::{Alone, Follower, Leader};
        for (answers, another) in [
            (&[Some((Alone, 4))][..], true),
            (&[Some((Alone, 5))], false),
            (&[Some((Follower, 4))], false),
            (&[Some((Leader, 4))], false),
            (&[None], false),
            (&[Some((Leader, 4)), Some((Follower, 4)), None], true),
            (&[Some((Leader, 4)), None, None], false),
            (&[Some((Follower, 4)), Some((Follower, 4)), None], false),
            (&[Some((Leader, 4)), Some((Follower, 5)), Some((Leader, 5))], false),
            (&[Some((Alone, 4)), Some((Alone, 4))], true),
            (&[Some((Alone, 4)), None], false),
        ] {
            assert_eq!(is_another(answers, 5), another, "{answers:?}");
        }
    }
}
