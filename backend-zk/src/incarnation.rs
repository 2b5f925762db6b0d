//! Whether the server that a client was connected to is another one now, which has forgotten it: restarted without its data, say.
//!
//! A server's transaction numbers only rise, with its data. One whose last number is below one that it has answered to us has lost
//! data, and our session with them. It refuses our connection for that number, and the client crate tries until it takes the session
//! for expired; so a client that is disconnected asks by itself, outside of any session (the word `srvr`). Then it need not wait
//! for the end of its lease, and says why.
//!
//! A server that lags, or a leader that is deposed and does not know, shows a lower number too. So more than half of the hosts must,
//! and one of them must be a leader; of a single host only one that stands alone counts, since behind one address there may be any of
//! several. Where a server does not answer to `srvr`, or has made as many transactions again by then, the lease runs out (`Expired`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use crate::hello::{Mode, ask};
use crate::lease::Session;

/// How often a client that is disconnected asks.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits until the servers are known to be another incarnation.
pub(crate) async fn forgotten(session: &Session) {
    let (driver, settings) = (&session.driver, &session.settings);
    loop {
        driver.disconnected().await;
        // Clients that were cut off together do not ask together: each has its own share of the pause, by its session's number.
        tokio::time::sleep(PAUSE / 2 + PAUSE * share_of(driver.session()) / 128).await;
        while !driver.is_connected() {
            let answers = join_all(settings.hosts.iter().map(|host| ask(host))).await;
            let seen = session.seen.load(Ordering::Acquire);
            if !driver.is_connected() && is_another(&answers, seen) {
                tracing::warn!(
                    hosts = ?settings.hosts,
                    seen = format_args!("{seen:#x}"),
                    "the servers have forgotten this client: their last transaction is one from before"
                );
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// One of 64 shares, spread evenly over numbers that follow each other.
fn share_of(session: i64) -> u32 {
    let spread = session.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    u32::try_from(spread).unwrap_or(0)
}

/// Whether these answers of all hosts (`None`: none) are those of servers that have not made the transaction `seen`.
fn is_another(answers: &[Option<(Mode, i64)>], seen: i64) -> bool {
    let behind = || answers.iter().flatten().filter(|(_, last)| *last < seen);
    match answers {
        [one] => one.is_some_and(|(mode, last)| mode == Mode::Alone && last < seen),
        several => behind().count() > several.len() / 2 && behind().any(|(mode, _)| *mode != Mode::Follower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lags_is_none_that_has_forgotten() {
        use Mode::{Alone, Follower, Leader};
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

    #[test]
    fn sessions_that_follow_each_other_are_spread() {
        let shares: std::collections::HashSet<_> =
            (0..64).map(|n| share_of(0x1000_2f6e_a1b0_0000 + n)).collect();
        assert!(shares.len() > 32, "{shares:?}");
    }
}
