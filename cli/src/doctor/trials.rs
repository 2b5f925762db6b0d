use std::time::{Duration, Instant};

use latchwork::{Config, Coordinator, Kind, Result};

use super::finding::Finding;

const ROUNDS: usize = 21;
const HAND_OFFS: usize = 3;

pub(super) async fn all(coordinator: &Coordinator, config: &Config) -> Vec<Finding> {
    // Only this run uses this key.
    let key =
        format!("latchwork-doctor/{}-{:x}", std::process::id(), coordinator.lease().clock().now().as_nanos());
    let mut findings = Vec::new();
    let trials = [
        ("mutex", mutex(coordinator, &key).await),
        ("read/write lock", rwlock(coordinator, &key).await),
        ("election", election(coordinator, &key).await),
        ("shared value", value(coordinator, &key).await),
        ("listing", listing(coordinator).await),
    ];
    let mut work = Vec::new();
    for (name, tried) in trials {
        match tried {
            Ok(()) => work.push(name),
            Err(error) => findings.push(Finding::of_error(name, error)),
        }
    }
    if !work.is_empty() {
        findings.push(Finding::good("rights", format!("the login can use: {}", work.join(", "))));
    }
    findings
        .push(latency(coordinator, &key).await.unwrap_or_else(|error| Finding::of_error("latency", error)));
    findings.push(
        hand_off(coordinator, config, &key)
            .await
            .unwrap_or_else(|error| Finding::of_error("hand-off", error)),
    );
    findings.push(others(coordinator).await);
    findings
}

async fn mutex(coordinator: &Coordinator, key: &str) -> Result<()> {
    coordinator.mutex(key)?.acquire().await?.release().await?;
    Ok(())
}

async fn rwlock(coordinator: &Coordinator, key: &str) -> Result<()> {
    let lock = coordinator.rwlock(key)?;
    lock.write().await?.downgrade().await?.release().await?;
    Ok(())
}

async fn election(coordinator: &Coordinator, key: &str) -> Result<()> {
    let election = coordinator.election(key)?;
    let observer = election.watch().await?;
    election.campaign(b"doctor").await?.release().await?;
    drop(observer);
    Ok(())
}

async fn value(coordinator: &Coordinator, key: &str) -> Result<()> {
    let mut value = coordinator.shared_value(key)?;
    if coordinator.capabilities().idle_cells {
        // If the deletion fails too, the server deletes the value later.
        value = value.with_time_to_idle(2 * coordinator.lease().ttl())?;
    }
    let written = value.write("doctor").await;
    // A failed write may have been executed.
    let deleted = value.delete().await;
    written?;
    deleted?;
    Ok(())
}

async fn listing(coordinator: &Coordinator) -> Result<()> {
    coordinator.list(Kind::Mutex, "latchwork-doctor/")?.first(1).await?;
    Ok(())
}

async fn latency(coordinator: &Coordinator, key: &str) -> Result<Finding> {
    let lock = coordinator.mutex(key)?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let hold = lock.acquire().await?;
        times.push(begun.elapsed());
        hold.release().await?;
    }
    times.sort_unstable();
    let (median, worst) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    let what =
        format!("a free lock is acquired in {} (median of {ROUNDS}, worst {})", shown(median), shown(worst));
    // A lease must survive several such delays.
    match median < coordinator.lease().ttl() / 20 {
        true => Ok(Finding::good("latency", what)),
        false => Ok(Finding::fault("latency", what).next("use a longer TTL, or a server that is nearer")),
    }
}

/// Repeated, because other work on this machine can delay one hand-over.
async fn hand_off(coordinator: &Coordinator, config: &Config, key: &str) -> Result<Finding> {
    let other = latchwork::connect(config).await?;
    // A waiter without an event looks after a third of the TTL.
    let slow = coordinator.lease().ttl() / 10;
    let mut best = Duration::MAX;
    for _ in 0..HAND_OFFS {
        best = best.min(handed_off(coordinator, &other, key).await?);
        if best < slow {
            break;
        }
    }
    other.close().await?;
    let what = format!("the next client holds {} after a release", shown(best));
    match best < slow {
        true => Ok(Finding::good("hand-off", what)),
        false => Ok(Finding::fault(
            "hand-off",
            what + ": the waiter got no event, and found the release by a re-check",
        )
        .next("allow the login to publish and subscribe in the namespace, and check the network")),
    }
}

async fn handed_off(coordinator: &Coordinator, other: &Coordinator, key: &str) -> Result<Duration> {
    let (held, next) = (coordinator.mutex(key)?.acquire().await?, other.mutex(key)?);
    let waits = next.acquire();
    tokio::pin!(waits);
    let both = async {
        loop {
            if coordinator.mutex(key)?.queue().first(2).await?.len() == 2 {
                break;
            }
        }
        let begun = Instant::now();
        held.release().await?;
        Ok::<_, latchwork::Error>(begun)
    };
    tokio::pin!(both);
    let (begun, next) = tokio::try_join!(both, waits)?;
    let took = begun.elapsed();
    next.release().await?;
    Ok(took)
}

pub(super) async fn others(coordinator: &Coordinator) -> Finding {
    let clients = match coordinator.clients().first(1000).await {
        Ok(clients) => clients,
        Err(error) => return Finding::of_error("clients", error),
    };
    let mut versions: Vec<_> = clients.iter().map(|client| client.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    Finding::good(
        "clients",
        format!("{} connected, including this one, with latchwork {}", clients.len(), versions.join(", ")),
    )
}

pub(super) fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use latchwork::ListedKey;
    use latchwork::testing::Memory;
    use latchwork::{Clock, ErrorKind};
    use latchwork_core::backend::CellLife;

    use super::*;

    #[tokio::test]
    async fn a_value_whose_write_was_not_answered_is_deleted_all_the_same() {
        let config = Config::from_url("memory://?request_timeout=50ms").expect("a good URL");
        let (coordinator, link) = Memory::new(Clock::system()).connect(&config).expect("memory");
        link.drop_next_reply();
        let error = value(&coordinator, "k").await.expect_err("the reply is lost");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        let left = coordinator.shared_value("k").expect("a good key").read().await.expect("read");
        assert!(left.is_none(), "{left:?}");
        value(&coordinator, "k").await.expect("written and deleted");
        coordinator.close().await.expect("closed");
    }

    #[tokio::test]
    async fn value_left_by_a_failed_deletion_expires_when_idle() {
        let config = Config::from_url("memory://").expect("a good URL");
        let store = Memory::new(Clock::system());
        let (coordinator, link) = store.connect(&config).expect("memory");
        link.delay(Duration::from_millis(200));
        let cut_behind_the_write = async {
            while store.contents().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            link.cut();
        };
        let (tried, ()) = tokio::join!(value(&coordinator, "k"), cut_behind_the_write);
        tried.expect_err("it is cut off");
        let (other, _) = store.connect(&config).expect("memory");
        let left = other.list(Kind::Value, "").expect("values").all().await.expect("listed");
        assert!(matches!(left[..], [ListedKey { life: CellLife::Idle(_), .. }]), "{left:?}");
    }
}
