use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::address::Address;
use crate::support::Sweeps;

/// Objects by their addresses, which their users share. The map keeps none of them alive.
#[derive(Debug)]
pub(crate) struct ByAddress<T> {
    objects: HashMap<Address, Weak<T>>,
    sweeps: Sweeps,
}

impl<T> ByAddress<T> {
    pub(crate) fn get(&self, address: &Address) -> Option<Arc<T>> {
        self.objects.get(address).and_then(Weak::upgrade)
    }

    /// Adds an object, or replaces the object of its address. Returns whether the others were swept.
    pub(crate) fn insert(&mut self, address: Address, object: &Arc<T>) -> bool {
        let sweeps = self.sweeps.is_due(self.objects.len());
        if sweeps {
            self.objects.retain(|_, object| object.strong_count() > 0);
            self.sweeps.swept(self.objects.len());
        }
        self.objects.insert(address, Arc::downgrade(object));
        sweeps
    }
}

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        Self { objects: HashMap::new(), sweeps: Sweeps::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Kind;

    fn address(number: usize) -> Address {
        Address::new("n", Kind::Mutex, format!("k{number}")).expect("a good key")
    }

    #[test]
    fn sweeps_are_few_while_all_objects_live_and_take_out_all_that_have_ended() {
        let (mut map, mut live) = (ByAddress::default(), Vec::new());
        let mut add = |number, live: &mut Vec<_>| {
            let object = Arc::new(number);
            let swept = map.insert(address(number), &object);
            live.push(object);
            swept
        };
        let sweeps = (0..20_000).filter(|&number| add(number, &mut live)).count();
        assert!(sweeps < 20, "{sweeps}");
        live.clear();
        let swept = (20_000..60_000).find(|&number| add(number, &mut live));
        assert!(swept.is_some(), "no sweep among 40,000 objects");
        assert_eq!(map.objects.len(), live.len());
    }
}
