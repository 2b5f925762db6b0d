use latchwork_core::LostReason;
use latchwork_core::backend::decide::ContactProof;

use crate::driver::NodeMode;
use crate::error::Fault;
use crate::incarnation::forgotten;
use crate::lease::SessionLease;

/// Returns the reason of the loss. `None`: the client was killed, and its lease expires at its deadline.
pub(crate) async fn renew(lease: &SessionLease, proof: ContactProof) -> Option<LostReason> {
    let driver = &lease.driver;
    let killed = driver.killed();
    tokio::select! {
        biased;
        () = killed.cancelled() => None,
        reason = lease.writer().until_lost() => Some(reason),
        () = contact(lease, proof) => Some(LostReason::Expired),
        () = driver.follow() => Some(LostReason::Expired),
        () = forgotten(lease) => Some(LostReason::Forgotten),
    }
}

async fn contact(lease: &SessionLease, mut proof: ContactProof) {
    #[cfg(feature = "controls")]
    if lease.settings.believes_reads {
        return believe_reads(lease).await;
    }
    let (driver, writer, member) = (&lease.driver, lease.writer(), lease.member.as_str());
    let clock = writer.clock();
    let period = proof.period();
    let label = lease.settings.label.as_bytes();
    let mut next = proof.next_send();
    loop {
        clock.sleep_until(next).await;
        if driver.connected().await.is_err() {
            return;
        }
        let sent = clock.now();
        // A short lease must be suspended before it is lost.
        writer.awaiting(sent, sent + period.min(writer.deadline().since(sent) / 2));
        let written = match driver.write_until_lost(member, label).await {
            // Another client has removed the node. The create is also a write.
            Err(Fault::NoNode) => driver.create_with_directory(member, label, NodeMode::Ephemeral).await,
            written => written,
        };
        match written {
            Ok(stat) => {
                let answered = clock.now();
                lease.set_server_time(stat.mtime, answered);
                lease.saw(stat.mzxid);
                if let Some(deadline) = proof.acknowledged(sent, answered) {
                    writer.proven_until(sent, deadline);
                }
                next = proof.next_send();
            }
            Err(Fault::SessionOver) => return,
            Err(fault) => {
                tracing::debug!(?fault, "a proof of contact failed");
                writer.suspend();
                // A refused proof must not cause a tight loop.
                next = clock.now() + period / 4;
            }
        }
        writer.tick();
    }
}

/// A negative control: the deadline counts from the last answered read, even of a follower without its
/// leader.
#[cfg(feature = "controls")]
async fn believe_reads(lease: &SessionLease) {
    let (driver, writer, member) = (&lease.driver, lease.writer(), lease.member.as_str());
    loop {
        let sent = writer.clock().now();
        if driver.stat(member).await.is_ok() {
            writer.proven(sent);
        }
        writer.clock().sleep_until(sent + lease.settings.tick).await;
    }
}
