//! One of a fleet leads and hands out work to all who are there; the leader goes, and another leads.
//!
//! ```text
//! cargo run --example leader_worker                        # on memory
//! cargo run --example leader_worker -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! Every instance joins the group of workers and stands in the election. The leader writes down who
//! does which shard, with its term: an assignment of an older term is refused. Here the table is in
//! this process; in a service it is a table of the database, with `WHERE term <= $1`.

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
/// How long a leader waits at most to be seen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who does which shard. It refuses the assignment of an older leader.
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
    // A name, since `memory://` alone is private to each Coordinator.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://leader-worker".to_owned());
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let key = format!("shards/{}", uuid::Uuid::new_v4());
    let instances = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;
    let table = Arc::new(Mutex::new(Assignments::default()));

    // All of them are there before the first one leads.
    let names: Vec<_> = (0..INSTANCES).map(|number| format!("instance-{number}")).collect();
    let memberships = try_join_all(instances.iter().zip(&names).map(|(instance, name)| {
        let group = instance.group(key.as_str());
        async move { group?.join(name.as_bytes()).await }
    }))
    .await?;
    let mut observer = instances[0].election(key.as_str())?.watch().await?;
    assert_eq!(observer.changed().await?, None, "nobody stands yet");

    // Each leads once, and hands over.
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
    // Leaders that come and go while nobody looks are skipped. Here each waits to be seen.
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
    // More where one was lost, and led again.
    assert!(leaders >= INSTANCES, "each was seen");

    // The table has the last leader's assignment, and refuses the first leader's.
    {
        let mut table = table.lock().expect("no panic");
        assert_eq!(table.term, terms.last().copied());
        assert_eq!(table.shards.len(), SHARDS);
        let (label, data) = (String::new(), (*b"a leader of the past").into());
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

/// Stands, and assigns the shards as the leader. Answers its term.
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
                    assert!(assigned, "nobody leads after this one yet");
                    // A leader's work takes its time: here until it was seen.
                    let own = Some(leader.token());
                    let was_seen = timeout(PATIENCE, seen.wait_for(|term| *term >= own)).await.is_ok();
                    assert!(was_seen, "nobody has seen this leader within {PATIENCE:?}");
                    ControlFlow::Break(Ok(leader.token()))
                }
                Err(error) => ControlFlow::Break(Err(error)),
            }
        }
    };
    instance.election(key.as_str())?.lead(name.as_bytes(), assign).await?
}
