use std::collections::HashMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use latchwork_core::backend::ChangeWatch;
use latchwork_core::backend::decide::queue::Queue;
use latchwork_core::{Address, Error, Moment, Result};
use tokio::sync::Notify;

use crate::wire::Wire;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: Vec<(Address, Weak<Notify>)>,
    told: HashMap<Address, Vec<(u64, bool)>>,
}

impl Watches {
    pub(crate) fn add(&mut self, address: &Address, watch: &Arc<Notify>) {
        self.watches.push((address.clone(), Arc::downgrade(watch)));
    }

    pub(crate) fn tell(&self, address: &Address) {
        let watches = self.watches.iter().filter(|(watched, _)| watched == address);
        watches.filter_map(|(_, watch)| watch.upgrade()).for_each(|watch| watch.notify_one());
    }

    pub(crate) fn tell_of(&mut self, address: &Address, queue: &Queue) {
        if !self.watches.iter().any(|(watched, _)| watched == address) {
            return;
        }
        let now: Vec<_> = queue.iter().map(|(sequence, _, admitted)| (sequence, admitted)).collect();
        if self.told.insert(address.clone(), now.clone()).is_none_or(|told| told != now) {
            self.tell(address);
        }
    }

    pub(crate) fn contents(&mut self) -> impl Iterator<Item = String> {
        self.watches.retain(|(_, watch)| watch.strong_count() > 0);
        self.watches.iter().map(|(watched, _)| format!("{watched:?} watched"))
    }
}

#[derive(Debug)]
pub(crate) struct TableWatch {
    wire: Wire,
    address: Address,
    changed: Arc<Notify>,
    registered: bool,
}

impl TableWatch {
    pub(crate) fn new(wire: Wire, address: Address) -> Self {
        Self { wire, address, changed: Arc::default(), registered: false }
    }
}

#[async_trait]
impl ChangeWatch for TableWatch {
    async fn changed(&mut self) -> Result<()> {
        if !self.registered {
            let (address, changed) = (self.address.clone(), Arc::clone(&self.changed));
            self.wire.send(move |table, _| table.watch(&address, &changed)).await?;
            self.registered = true;
            return Ok(());
        }
        loop {
            // The table has no timer.
            let address = self.address.clone();
            let expires = self.wire.send(move |table, now| table.look(now, &address)).await?;
            let look_at = expires.map_or(Moment::NEVER, |expires| Moment::from_nanos(expires * 1_000));
            tokio::select! {
                () = self.changed.notified() => return Ok(()),
                () = self.wire.closed() => return Err(Error::closed()),
                () = self.wire.clock().sleep_until(look_at) => {}
            }
        }
    }
}
