use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use latchwork_core::Moment;

use super::connection::Server;
use super::slots::SLOTS;
use crate::config::Host;

pub(super) struct Map {
    servers: BTreeMap<Arc<Host>, Arc<Server>>,
    owners: Vec<Option<Owner>>,
    pub(super) closed: bool,
}

#[derive(Clone)]
struct Owner {
    host: Arc<Host>,
    // `Moment::PAST` for the first known owner.
    since: Moment,
}

impl Map {
    pub(super) fn new() -> Self {
        Self { servers: BTreeMap::new(), owners: vec![None; SLOTS], closed: false }
    }

    pub(super) fn server(&self, host: &Host) -> Option<Arc<Server>> {
        self.servers.get(host).cloned()
    }

    pub(super) fn server_or(&mut self, host: &Host, new: impl FnOnce() -> Arc<Server>) -> Arc<Server> {
        if let Some(server) = self.server(host) {
            return server;
        }
        let server = new();
        self.servers.insert(Arc::new(host.clone()), Arc::clone(&server));
        server
    }

    pub(super) fn host(&self, slot: u16) -> Option<Arc<Host>> {
        self.owners[usize::from(slot)].as_ref().map(|owner| Arc::clone(&owner.host))
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Server>> {
        self.server(&*self.host(slot)?)
    }

    pub(super) fn since(&self, slot: u16) -> Moment {
        self.owners[usize::from(slot)].as_ref().map_or(Moment::PAST, |owner| owner.since)
    }

    /// Returns whether this changed the owner.
    pub(super) fn set(&mut self, slots: RangeInclusive<u16>, host: &Host, now: Moment) -> bool {
        let Some((host, _)) = self.servers.get_key_value(host) else { return false };
        let mut changed = false;
        for owner in &mut self.owners[usize::from(*slots.start())..=usize::from(*slots.end())] {
            let since = match owner {
                Some(owner) if owner.host == *host => continue,
                Some(_) => now,
                None => Moment::PAST,
            };
            *owner = Some(Owner { host: Arc::clone(host), since });
            changed = true;
        }
        changed
    }

    pub(super) fn without_slots(&mut self) -> Vec<Arc<Server>> {
        let used: BTreeSet<_> = self.owners.iter().flatten().map(|owner| Arc::clone(&owner.host)).collect();
        let mut gone = Vec::new();
        self.servers.retain(|host, server| {
            let stays = used.contains(host) || Arc::strong_count(server) > 1;
            if !stays {
                gone.push(Arc::clone(server));
            }
            stays
        });
        gone
    }

    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        self.servers.values().cloned().collect()
    }

    pub(super) fn hosts(&self) -> Vec<(Arc<Host>, Arc<Server>)> {
        self.servers.iter().map(|(host, server)| (Arc::clone(host), Arc::clone(server))).collect()
    }

    pub(super) fn server_or_first(&self, host: Option<&Host>) -> Option<(Arc<Host>, Arc<Server>)> {
        let found = host.and_then(|host| self.servers.get_key_value(host));
        let found = found.or_else(|| self.servers.first_key_value());
        found.map(|(host, server)| (Arc::clone(host), Arc::clone(server)))
    }

    pub(super) fn behind(&self, host: &Host) -> Option<Arc<Host>> {
        self.servers.keys().find(|known| ***known > *host).cloned()
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::Clock;

    use super::*;
    use crate::config::Settings;
    use crate::driver::Setup;

    const NOW: Moment = Moment::from_nanos(1);

    fn added(map: &mut Map, port: u16) -> Host {
        let host = Host { name: "127.0.0.1".to_owned(), port };
        let settings = Settings::of(&"redis-cluster://127.0.0.1:1".parse().unwrap()).unwrap();
        let (settings, clock) = (settings.of_shard(host.clone()), Clock::tokio());
        let setup = Setup { settings, clock, on_message: Arc::new(|_, _| {}), reconnected: Arc::default() };
        map.server_or(&host, || Arc::new(Server::dialling(setup)));
        host
    }

    /// The successor may be before it in the order.
    #[tokio::test]
    async fn walk_from_a_removed_server_starts_at_the_first() {
        let mut map = Map::new();
        let [first, gone, last] = [1, 2, 3].map(|port| added(&mut map, port));
        map.servers.remove(&gone);
        let found = |host| map.server_or_first(host).map(|(host, _)| host.port);
        assert_eq!([None, Some(&gone), Some(&last)].map(found), [1, 1, 3].map(Some));
        assert_eq!(map.behind(&first), Some(Arc::new(last)));
    }

    fn ports(map: &Map) -> Vec<u16> {
        map.hosts().iter().map(|(host, _)| host.port).collect()
    }

    #[tokio::test]
    async fn server_without_slots_is_removed_after_its_last_request() {
        let mut map = Map::new();
        let [old, new, next] = [1, 2, 3].map(|port| added(&mut map, port));
        let request = map.server(&next).expect("it was added");
        assert!(map.set(0..=16_383, &old, NOW));
        assert!(map.set(0..=16_382, &new, NOW));
        assert!(map.without_slots().is_empty(), "the old one has a slot, and a request waits for the next");
        assert_eq!(ports(&map), [1, 2, 3]);
        assert!(map.set(16_383..=16_383, &new, NOW));
        assert_eq!(map.without_slots().len(), 1);
        assert_eq!(ports(&map), [2, 3], "the old one has no slot any more");
        drop(request);
        assert_eq!(map.without_slots().len(), 1);
        assert_eq!(ports(&map), [2], "no request waits for the next");
        assert!(map.without_slots().is_empty());
        assert_eq!(map.host(0).as_deref(), Some(&new));
    }
}
