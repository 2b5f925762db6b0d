//! One instance of a fleet leads, and assigns work to all live instances. When it ends, another one leads.
//!
//! ```text
//! cargo run --example leader_worker                        # on memory
//! cargo run --example leader_worker -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! Every instance joins the group of workers, and is a candidate in the election. The leader writes an
//! assignment of the shards with its term, a fencing token, and the table refuses an older term: in a
//! database, `WHERE term <= $1`. This is enough because an assignment replaces the whole table. A leader that
//! reads first must claim its term, as in `fenced_write`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Coordinator, GroupMember, Leadership, Result, Token};
use tokio::sync::watch;
use tokio::time::timeout;

const INSTANCES: usize = 3;
const SHARDS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(30);

/// The worker of each shard. Refuses the assignment of an older leader.
#[derive(Debug, Default)]
struct Assignments {
    term: Option<Token>,
    shards: BTreeMap<usize, String>,
}

impl Assignments {
    fn assign(&mut self, term: Token, members: &[GroupMember]) -> bool {
        if self.term > Some(term) {
            return false;
        }
        let of = |shard: usize| String::from_utf8_lossy(&members[shard % members.len()].data).into_owned();
        *self = Self { term: Some(term), shards: (0..SHARDS).map(|shard| (shard, of(shard))).collect() };
        true
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://leader-worker".to_owned());
    // Random for this example. A service has a fixed key.
    let key = format!("shards/{}", uuid::Uuid::new_v4());
    let instances = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;
    let table = Arc::new(Mutex::new(Assignments::default()));

    let names: Vec<_> = (0..INSTANCES).map(|number| format!("instance-{number}")).collect();
    let memberships = try_join_all(instances.iter().zip(&names).map(|(instance, name)| {
        let group = instance.group(key.as_str());
        async move { group?.join(name.as_bytes()).await }
    }))
    .await?;
    let mut observer = instances[0].election(key.as_str())?.watch().await?;
    assert_eq!(observer.changed().await?, None, "the election has no candidate yet");

    let (saw, seen) = watch::channel(None);
    let standing: Vec<_> = instances
        .iter()
        .zip(&names)
        .map(|(instance, name)| {
            let (table, seen) = (Arc::clone(&table), seen.clone());
            tokio::spawn(lead_once(instance.clone(), key.clone(), name.clone(), table, seen))
        })
        .collect();
    let mut leaders = 0;
    let mut last = None;
    // A watch skips leaders between two reads, so each leader waits until the observer has seen it.
    while standing.iter().any(|task| !task.is_finished()) {
        let Ok(seen) = timeout(Duration::from_millis(200), observer.changed()).await else {
            continue;
        };
        let Some(leading) = seen? else { continue };
        println!("{} leads, term {}", String::from_utf8_lossy(&leading.data), leading.term);
        assert!(last < Some(leading.term), "terms rise");
        (leaders, last) = (leaders + 1, Some(leading.term));
        saw.send_replace(last);
    }
    let mut terms = Vec::new();
    for task in standing {
        terms.push(task.await.expect("no panic")?);
    }
    terms.sort();
    println!("{} led, and leaders were seen {leaders} times", terms.len());
    // An instance may have led more than once.
    assert!(leaders >= INSTANCES, "the observer saw each leader");

    {
        let mut table = table.lock().expect("no panic");
        assert_eq!(table.term, terms.last().copied());
        assert_eq!(table.shards.len(), SHARDS);
        let (label, data) = (String::new(), (*b"a former leader").into());
        let late = [GroupMember { sequence: 1, label, data }];
        assert!(!table.assign(terms[0], &late), "an older term is refused");
    }
    for membership in memberships {
        membership.release().await?;
    }
    for instance in instances {
        instance.close().await?;
    }
    Ok(())
}

async fn lead_once(
    instance: Coordinator,
    key: String,
    name: String,
    table: Arc<Mutex<Assignments>>,
    seen: watch::Receiver<Option<Token>>,
) -> Result<Token> {
    let workers = instance.group(key.as_str())?;
    let assign = |leader: Arc<Leadership>| {
        let (workers, table, mut seen) = (workers.clone(), Arc::clone(&table), seen.clone());
        async move {
            match workers.members().await {
                Ok(members) => {
                    let assigned = table.lock().expect("no panic").assign(leader.token(), &members);
                    assert!(assigned, "no later leader has written");
                    // A leader does longer work here.
                    let own = Some(leader.token());
                    let was_seen = timeout(PATIENCE, seen.wait_for(|term| *term >= own)).await.is_ok();
                    assert!(was_seen, "the observer did not see this leader within {PATIENCE:?}");
                    ControlFlow::Break(Ok(leader.token()))
                }
                Err(error) => ControlFlow::Break(Err(error)),
            }
        }
    };
    instance.election(key.as_str())?.lead(name.as_bytes(), assign).await?
}
