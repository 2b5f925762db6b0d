use std::fmt;
use std::time::Duration;

use latchwork_servers::ServerError;
use latchwork_servers::proxy::{Direction, Proxy};
use tokio::join;
use tokio::time::sleep;

use super::side::Side;
use crate::failover::TTL;

/// The server keeps acknowledged data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerFault {
    /// Closes all connections.
    Cut(Duration),
    /// No bytes pass, and no connection closes.
    Silent(Duration),
    Stopped(Duration),
    Restarted,
}

const SHORT: Duration = TTL.checked_div(3).expect("no zero");
const LONG: Duration = TTL.saturating_mul(3).checked_div(2).expect("no zero");

pub(super) const SERVER_FAULTS: [ServerFault; 7] = [
    ServerFault::Restarted,
    ServerFault::Stopped(LONG),
    ServerFault::Cut(SHORT),
    ServerFault::Stopped(SHORT),
    ServerFault::Cut(LONG),
    ServerFault::Silent(SHORT),
    ServerFault::Silent(LONG),
];

impl fmt::Display for ServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerFault::Cut(lasts) => write!(f, "cut off for {lasts:?}"),
            ServerFault::Silent(lasts) => write!(f, "silent for {lasts:?}"),
            ServerFault::Stopped(lasts) => write!(f, "stopped for {lasts:?}"),
            ServerFault::Restarted => f.write_str("restarted"),
        }
    }
}

impl ServerFault {
    /// The fault ends after its time and `meanwhile`, which starts later.
    pub(super) async fn befalls<T>(
        self,
        side: &Side,
        meanwhile: impl Future<Output = T>,
    ) -> Result<T, ServerError> {
        let ways = [&side.way, &side.door];
        Ok(match self {
            ServerFault::Cut(lasts) => {
                ways.into_iter().for_each(Proxy::cut);
                let (seen, ()) = join!(meanwhile, sleep(lasts));
                ways.into_iter().for_each(Proxy::resume);
                seen
            }
            ServerFault::Silent(lasts) => {
                for direction in [Direction::ToServer, Direction::ToClient] {
                    ways.into_iter().for_each(|way| way.hold(direction));
                }
                let (seen, ()) = join!(meanwhile, sleep(lasts));
                ways.into_iter().for_each(Proxy::resume);
                seen
            }
            ServerFault::Stopped(lasts) => {
                side.server.pause().await?;
                let (seen, ()) = join!(meanwhile, sleep(lasts));
                side.server.resume().await?;
                seen
            }
            ServerFault::Restarted => {
                side.server.kill().await?;
                let seen = meanwhile.await;
                side.server.launch().await?;
                seen
            }
        })
    }
}
