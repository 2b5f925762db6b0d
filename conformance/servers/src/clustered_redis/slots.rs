use futures_util::future::join_all;

use super::{ClusteredRedis, SERVERS, SLOTS};
use crate::reached::until;
use crate::{Kind, ServerError};

impl ClusteredRedis {
    /// Waits until most servers agree on the master of this key.
    pub async fn master_of(&self, key: &str) -> Result<usize, ServerError> {
        let slot = self.slot(key).await?;
        until("had no master of a slot", self.states(), async || {
            let views = join_all((0..SERVERS).map(|server| self.says(server, "CLUSTER NODES"))).await;
            let mut votes = [0; SERVERS];
            views.iter().filter_map(|view| self.owner_in(view, slot)).for_each(|owner| votes[owner] += 1);
            votes.iter().position(|votes| *votes > SERVERS / 2)
        })
        .await
    }

    /// Waits until another server is the master of this key, and returns it.
    pub async fn wait_until_replaced(&self, key: &str, server: usize) -> Result<usize, ServerError> {
        until("did not replace a master", self.states(), async || {
            self.master_of(key).await.ok().filter(|master| *master != server)
        })
        .await
    }

    /// Returns the master of this key as one server sees it.
    pub async fn master_seen_by(&self, server: usize, key: &str) -> Result<Option<usize>, ServerError> {
        let slot = self.slot(key).await?;
        Ok(self.owner_in(&self.say(server, "CLUSTER NODES").await?, slot))
    }

    /// Returns the slot of a key.
    pub async fn slot(&self, key: &str) -> Result<u16, ServerError> {
        let mut last = Err(ServerError::Stopped { kind: Kind::Redis });
        for server in 0..SERVERS {
            match self.say(server, &format!("CLUSTER KEYSLOT {key}")).await {
                Ok(said) => {
                    let slot = said.trim_start_matches(':').lines().next().and_then(|slot| slot.parse().ok());
                    return Ok(slot.expect("a slot"));
                }
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// Moves a slot, key by key, like `redis-cli --cluster reshard`.
    ///
    /// # Panics
    /// If a server refuses a step.
    pub async fn move_slot(&self, slot: u16, from: usize, to: usize) -> Result<(), ServerError> {
        self.begin_move(slot, from, to).await?;
        let port = self.servers[to].binary.known_port();
        loop {
            let keys = self.say(from, &format!("CLUSTER GETKEYSINSLOT {slot} 1")).await?;
            let Some(key) = keys.lines().nth(2).filter(|key| !key.starts_with('-')) else { break };
            done(self.say(from, &format!("MIGRATE 127.0.0.1 {port} {key} 0 5000")).await?);
        }
        // The new master must know its slot before the old one redirects clients to it.
        done(self.say(to, &format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to])).await?);
        done(self.say(from, &format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to])).await?);
        Ok(())
    }

    /// Makes the first step of [`move_slot`](Self::move_slot). The old master redirects clients of missing
    /// keys to the new one (`ASK`).
    ///
    /// # Panics
    /// If a server refuses a step.
    pub async fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<(), ServerError> {
        done(self.say(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from])).await?);
        done(self.say(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to])).await?);
        Ok(())
    }

    /// Makes a replica a master without slots, and waits until all servers know it: at least five seconds, if
    /// no master is replaced.
    ///
    /// # Panics
    /// If a server refuses a step, for example because it is a master with keys.
    pub async fn make_empty_master(&self, replica: usize) -> Result<(), ServerError> {
        done(self.say(replica, "CLUSTER RESET SOFT").await?);
        // The reset made it forget the others, but they know it.
        done(self.say(replica, &self.meet_line(0)).await?);
        let id = self.ids[replica].as_str();
        until("did not take a master in", self.states(), async || {
            let views = join_all((0..SERVERS).map(|server| self.says(server, "CLUSTER NODES"))).await;
            let leads =
                |view: &String| view.lines().any(|line| line.starts_with(id) && line.contains("master"));
            let info = self.says(replica, "CLUSTER INFO").await;
            let knows = format!("cluster_slots_assigned:{SLOTS}\r\n");
            let serves = info.contains("cluster_state:ok") && info.contains(&knows);
            (serves && views.iter().all(leads)).then_some(())
        })
        .await
    }

    fn owner_in(&self, view: &str, slot: u16) -> Option<usize> {
        let has = |word: &str| match word.split_once('-') {
            Some((first, last)) => match (first.parse::<u16>(), last.parse::<u16>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&slot),
                _ => false,
            },
            None => word.parse() == Ok(slot),
        };
        let line = view.lines().find(|line| {
            line.contains("master") && !line.contains("fail") && line.split(' ').skip(8).any(has)
        })?;
        self.ids.iter().position(|id| line.starts_with(id.as_str()))
    }
}

fn done(said: String) {
    assert!(said.starts_with("+OK") || said.starts_with("+NOKEY"), "{said}");
}
