//! All coordinators are one server here: the figures show the client and the network, not independent
//! servers.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use latchwork_core::Coordinator;
use latchwork_core::recipes::QuorumLock;

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::{self, Pair, Subject};
use crate::target::Target;
use crate::turns::{self, ServerTerms};

pub(super) const MEMBERS: [usize; 2] = [3, 5];

pub(super) fn peer(members: usize) -> &'static str {
    if members == 3 { "latchwork-quorum-3" } else { "latchwork-quorum-5" }
}

#[async_trait]
impl Pair for QuorumLock {
    async fn once(&mut self) -> Result<()> {
        let hold = self.acquire().await?;
        Ok(hold.release().await?)
    }

    async fn end(&mut self) -> Result<()> {
        Ok(self.reset().await?)
    }
}

pub(super) async fn measure(target: &Target, members: usize, plan: &Plan) -> Result<Vec<Line>> {
    let clients = try_join_all((0..members).map(|number| target.open_member(number))).await?;
    let longest_ttl = target.config.ttl.max(clients[0].lease().ttl());
    let lock = QuorumLock::on_one_server("quorum", clients.iter().cloned(), longest_ttl)?;
    // No other client uses it, so the first acquisition need not wait for a TTL.
    lock.initialize().await?;
    let mut subjects = vec![Subject { peer: peer(members), pair: Box::new(lock) }];
    if plan.raw {
        subjects.extend(raw::at_once(target, members).await?);
    }
    let terms = ServerTerms::of(target, ["QUORUM", "majority", "server requests/acquisition"]);
    let lines = turns::measure(subjects, plan, &terms).await?;
    try_join_all(clients.iter().map(Coordinator::close)).await?;
    Ok(lines)
}
