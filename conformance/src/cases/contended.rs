//! NODE-WAIT in a long queue: the cost of a grant.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use latchwork_core::backend::EntryPage;
use latchwork_core::{Address, Config, Coordinator, Hold, Kind, Result};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::node::{counts, upkeep};
use crate::actions::close;
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::{soon, within};

const CLIENTS: usize = 10;
const STRETCH: usize = 50;
/// The next waiter may look once too early.
const TOLERANCE: f64 = 1.0;
/// One busy core needs more than a minute for all waiters.
const GATHERING: Duration = Duration::from_secs(240);

/// Longer than a slow run, so that re-checks of a thousand waiters are rare. A ZooKeeper with default
/// settings grants at most [`QUIET_TTL`].
fn rare(context: &Context) -> Duration {
    if context.config(QUIET_TTL).backend == "zookeeper" { QUIET_TTL } else { Duration::from_secs(3600) }
}

struct ContendedKey {
    kind: Kind,
    /// One if their order matters.
    at_a_time: usize,
}

const KEY: &str = "contended";
const PERMITS: u32 = 2;

const MUTEX: ContendedKey = ContendedKey { kind: Kind::Mutex, at_a_time: 50 };
const READERS_AND_WRITERS: ContendedKey = ContendedKey { kind: Kind::RwLock, at_a_time: 1 };
const SEMAPHORE: ContendedKey = ContendedKey { kind: Kind::Semaphore, at_a_time: 50 };

async fn takes_all(client: Coordinator, kind: Kind) -> Result<Hold> {
    Ok(match kind {
        Kind::Mutex => client.mutex(KEY)?.acquire().await?.into(),
        Kind::RwLock => client.rwlock(KEY)?.write().await?.into(),
        _ => client.semaphore(KEY, PERMITS)?.acquire(PERMITS).await?.into(),
    })
}

async fn waits(client: Coordinator, kind: Kind, number: usize) -> Result<Hold> {
    Ok(match kind {
        Kind::RwLock if number.is_multiple_of(2) => client.rwlock(KEY)?.read().await?.into(),
        Kind::Semaphore => client.semaphore(KEY, PERMITS)?.acquire(1).await?.into(),
        _ => return takes_all(client, kind).await,
    })
}

cases! {
    "NODE-WAIT" alone =>
    /// 1,000 waiters of ten clients are released one by one: a grant costs as many requests at the end as at the start,
    /// and as with 100 waiters
    async fn node_wait_a_thousand_released_one_by_one(context) {
        costs_do_not_grow(context, &MUTEX, [100, 1000]).await;
    }

    "NODE-WAIT" alone =>
    /// 150 alternating readers and writers are released one by one: a grant costs as many requests as with 50
    async fn node_wait_readers_and_writers_released_one_by_one(context) {
        costs_do_not_grow(context, &READERS_AND_WRITERS, [50, 150]).await;
    }

    "NODE-WAIT" alone =>
    /// 150 waiters for one of two permits are released one by one: a grant costs as many requests as with 50
    async fn node_wait_for_permits_released_one_by_one(context) {
        costs_do_not_grow(context, &SEMAPHORE, [50, 150]).await;
    }
}

#[derive(Clone, Copy)]
struct Cost {
    requests: f64,
    /// Requests for other reasons than grants.
    upkeep: f64,
}

impl fmt::Debug for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.requests.fmt(f)
    }
}

async fn costs_do_not_grow(context: &Context, recipe: &ContendedKey, [few, many]: [usize; 2]) {
    if !counts(context).await {
        return;
    }
    let among_few = released_one_by_one(context, recipe, few, &[0..few / 2, few / 2..few]).await;
    let middle = (many - STRETCH) / 2;
    let stretches = [0..STRETCH, middle..middle + STRETCH, many - STRETCH..many];
    let among_many = released_one_by_one(context, recipe, many, &stretches).await;
    let kind = recipe.kind;
    eprintln!(
        "{}: {kind:?}: requests per grant: {among_few:.2?} among {few}, {among_many:.2?} among {many}",
        context.testbed.name()
    );
    let usual = among_few.iter().map(|cost| cost.requests).fold(0.0, f64::max);
    assert!(usual >= 1.0, "{among_few:?} requests per grant: the fixture does not count requests");
    for cost in &among_many {
        assert!(
            cost.requests <= usual + TOLERANCE + cost.upkeep,
            "a grant costs {among_few:.2?} requests among {few} and {among_many:.2?} among {many}, at the beginning, in the \
             middle and at the end"
        );
    }
}

async fn released_one_by_one(
    context: &Context,
    recipe: &ContendedKey,
    waiters: usize,
    stretches: &[Range<usize>],
) -> Vec<Cost> {
    assert!(
        waiters.is_multiple_of(recipe.at_a_time),
        "the number of waiters must be a multiple of the holders"
    );
    let (ttl, mut clients) = (rare(context), Vec::new());
    for _ in 0..CLIENTS {
        // A repeated request would count twice.
        let patient =
            |config: &mut Config| config.request_timeout = config.request_timeout.max(QUIET_TTL / 4);
        clients.push(context.client_by(ttl, patient).await);
    }
    let all =
        soon("all is taken", takes_all(clients[0].coordinator.clone(), recipe.kind)).await.expect("taken");
    let (admitted, mut grants) = mpsc::unbounded_channel();
    let queue = context.queue_of(recipe.kind, KEY);
    let began = Instant::now();
    for number in 0..waiters {
        let waits = waits(clients[number % CLIENTS].coordinator.clone(), recipe.kind, number);
        let admitted = admitted.clone();
        tokio::spawn(async move {
            let _ = admitted.send(waits.await);
        });
        if (number + 1).is_multiple_of(recipe.at_a_time) {
            gathered(&clients[0], &queue, number + 2).await;
        }
    }
    settled(context, began.elapsed()).await;
    assert!(grants.is_empty(), "a waiter was admitted while one client held everything");

    let mut costs = Vec::new();
    let mut before = (0, began);
    soon("the first release", all.release()).await.expect("released");
    for number in 0..waiters {
        let grant =
            soon("the next grant", grants.recv()).await.expect("the channel is open").expect("admitted");
        if stretches.iter().any(|stretch| stretch.start == number) {
            before = (context.requests().await, Instant::now());
        }
        soon("the release", grant.release()).await.expect("released");
        if let Some(stretch) = stretches.iter().find(|stretch| stretch.end == number + 1) {
            let (made, grants) = (context.requests().await - before.0, stretch.len() as f64);
            let allowed =
                upkeep(CLIENTS, before.1.elapsed()) as f64 + rechecks(waiters, began.elapsed(), ttl);
            costs.push(Cost { requests: made as f64 / grants, upkeep: allowed / grants });
        }
    }
    for client in &clients {
        close(client).await;
    }
    costs
}

/// After a TTL, each waiter may re-check its node and the one before.
fn rechecks(waiters: usize, since_they_came: Duration, ttl: Duration) -> f64 {
    if since_they_came < ttl { 0.0 } else { (2 * waiters) as f64 }
}

/// No event reports that a waiter watches its predecessor, so this waits until no request comes for an eighth
/// of the joining time.
async fn settled(context: &Context, joined_in: Duration) {
    let quiet = (joined_in / 8).max(Duration::from_millis(200));
    let servers = context.fixture.config().hosts.len().max(1) as u64;
    within(GATHERING, "quiet", async {
        let mut before = context.requests().await;
        loop {
            tokio::time::sleep(quiet).await;
            let now = context.requests().await;
            // Leases are renewed, and a server may count this question.
            if now - before <= 3 * servers {
                return;
            }
            before = now;
        }
    })
    .await;
}

async fn gathered(client: &Client, queue: &Address, nodes: usize) {
    let (mut after, mut seen) = (0, 0);
    within(GATHERING, "all waiters are in the queue", async {
        loop {
            // Nodes stay, so only new ones are read.
            let page = EntryPage::new(after, 1000);
            let entries = client.coordinator.backend().list(queue, page).await.expect("listed");
            seen += entries.len();
            if seen >= nodes {
                return;
            }
            after = entries.last().map_or(after, |entry| entry.sequence);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
