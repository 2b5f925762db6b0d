use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Result;
use tokio::time::timeout;

use super::connection::Server;
use super::link::{LiveConnection, Wire, take_down};
use crate::error::{closed, from_redis, only_read, timed_out};

impl Server {
    pub(super) async fn standing(&self, within: Duration) -> Result<LiveConnection> {
        match timeout(within, self.up()).await {
            Ok(wire) => Ok(self.standing_on(&wire?)),
            Err(_) => Err(self.not_connected()),
        }
    }

    pub(super) fn standing_on(&self, wire: &Wire) -> LiveConnection {
        let (link, host) = (self.link.subscribe(), Arc::clone(&wire.host));
        LiveConnection { link, generation: wire.generation, host }
    }

    /// Unsubscribes if `listen` is false. After the answer no message is lost while the connection is up.
    pub(super) async fn listen(
        &self,
        on: &LiveConnection,
        channel: &str,
        listen: bool,
        within: Duration,
    ) -> Result<()> {
        let generation = on.generation;
        let Some(mut wire) = self.up_now().filter(|wire| wire.generation == generation) else {
            return Err(closed());
        };
        wire.connection.set_response_timeout(within);
        let (sent, mut ending) = (self.clock.now(), on.clone());
        self.requests.sent(if listen { "SUBSCRIBE" } else { "UNSUBSCRIBE" });
        let asked = async {
            match listen {
                true => wire.connection.subscribe(channel).await,
                false => wire.connection.unsubscribe(channel).await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = ending.ended() => return Err(closed()),
        };
        let Err(error) = answer else {
            self.silence.end(self.clock.now());
            return Ok(());
        };
        let failure = if error.is_timeout() { timed_out() } else { from_redis(error, false) };
        let is_silent = || failure.timed_out && self.silence.is_too_long(sent, within, self.clock.now());
        if failure.redial || is_silent() {
            take_down(&self.link, generation, &failure.error);
        }
        // A subscription can be requested again.
        Err(only_read(failure.error))
    }
}
