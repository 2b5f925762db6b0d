use std::cmp::Reverse;

use latchwork_core::backend::decide::chain::Listed;
use latchwork_core::{Claim, Kind};

use super::names::{counter, read_name};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) claim: Claim,
    counter: i32,
}

impl Contender {
    /// `None`: the child has no effect (NODE-FOREIGN).
    pub(crate) fn parse(kind: Kind, name: String) -> Option<Self> {
        let (claim, counter) = read_name(kind, &name)?;
        Some(Self { name, claim, counter })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Contenders(pub(crate) Vec<Contender>);

impl Contenders {
    pub(crate) fn read(kind: Kind, children: Vec<String>) -> Self {
        Self::read_those(kind, children, |_| true)
    }

    /// Exclusive and shared claims depend on no later ones.
    pub(crate) fn read_up_to(own: &str, kind: Kind, children: Vec<String>) -> Self {
        let last = counter(kind, own);
        Self::read_those(kind, children, |counter| last.is_none_or(|last| counter <= last))
    }

    fn read_those(kind: Kind, children: Vec<String>, wanted: impl Fn(i32) -> bool) -> Self {
        let mut contenders = Vec::with_capacity(children.len());
        contenders.extend(
            children
                .into_iter()
                .filter_map(|name| Contender::parse(kind, name))
                .filter(|contender| wanted(contender.counter)),
        );
        // During a downgrade by Curator, a writer has two nodes with one counter. The writer's node comes
        // first, because its deletion admits others. Further nodes with this counter are foreign; their names
        // give all clients the same order.
        let rank = |one: &Contender| (one.counter, Reverse(one.claim == Claim::Exclusive));
        contenders.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
        Self(contenders)
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|contender| contender.name == name)
    }

    /// `None`: the counter is not the next lower one.
    pub(crate) fn right_before(&self, at: usize) -> Option<&str> {
        let (ahead, own) = (&self.0[at.checked_sub(1)?], &self.0[at]);
        let counter = format!("{:010}", ahead.counter);
        if own.counter - ahead.counter == 1 { ahead.name.strip_suffix(&counter) } else { None }
    }

    /// `marked`: whether the client knows that a node is marked as admitted.
    pub(crate) fn listed(&self, marked: impl Fn(&str) -> bool) -> Vec<Listed> {
        self.0.iter().map(|one| Listed { claim: one.claim, marked: marked(&one.name) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(queue: &Contenders) -> Vec<&str> {
        queue.0.iter().map(|one| one.name.as_str()).collect()
    }

    fn read(kind: Kind, children: &[&str]) -> Contenders {
        Contenders::read(kind, children.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn contenders_sort_by_counter_and_bad_counters_are_ignored() {
        let queue = read(
            Kind::Mutex,
            &[
                "b-lock-2147483647",
                "x-lock--2147483646",
                "x-lock-2147483648",
                "c-lock-17",
                "a-lock-0000000000",
            ],
        );
        assert_eq!(names(&queue), ["a-lock-0000000000", "c-lock-17", "b-lock-2147483647"]);
        for name in
            ["x-__WRIT__-000000001", "x-__READ__--1", "x-__READ__", "x-__READ__+1", "x-__READ__99999999999"]
        {
            assert_eq!(Contender::parse(Kind::RwLock, name.to_owned()), None, "{name}");
        }
        let twice = ["b-lock-5", "a-lock-5"];
        assert_eq!(names(&read(Kind::Mutex, &twice)), ["a-lock-5", "b-lock-5"]);
    }

    #[test]
    fn contenders_after_the_own_node_are_left_out() {
        let names: Vec<_> = (0..5)
            .map(|step: i32| format!("x-lock-{:010}", i32::MAX - step))
            .chain(["note".to_owned()])
            .collect();
        let whole = Contenders::read(Kind::Mutex, names.clone());
        assert_eq!(whole.0.len(), 5);
        for (at, own) in whole.0.iter().enumerate() {
            let part = Contenders::read_up_to(&own.name, Kind::Mutex, names.iter().rev().cloned().collect());
            assert_eq!(part.0, whole.0[..=at], "up to {}", own.name);
        }
        let downgrading = ["_c_a-__READ__0000000004", "_c_b-__READ__0000000005", "_c_a-__WRIT__0000000004"];
        let names = downgrading.map(str::to_owned).to_vec();
        assert_eq!(Contenders::read_up_to("_c_a-__READ__0000000004", Kind::RwLock, names).0.len(), 2);
    }

    #[test]
    fn foreign_children_do_no_harm_and_nodes_of_peers_are_honoured() {
        let queue = read(
            Kind::Mutex,
            &["note", "lock-abc", "_c_x-lock-0000000003", "7d793037__lock__0000000002", "x-lease-0000000001"],
        );
        assert_eq!(names(&queue), ["7d793037__lock__0000000002", "_c_x-lock-0000000003"]);
        let permits = read(Kind::Semaphore, &["_c_x-lease-0000000002", "_c_y-w3-lease-0000000001"]);
        let claims: Vec<_> = permits.0.iter().map(|one| one.claim).collect();
        assert_eq!(claims, [Claim::Permits(3), Claim::Permits(1)]);
    }

    #[test]
    fn downgrading_writer_comes_before_its_own_reader() {
        let queue = read(Kind::RwLock, &["_c_a-__READ__0000000004", "_c_a-__WRIT__0000000004"]);
        assert_eq!(names(&queue)[0], "_c_a-__WRIT__0000000004");
    }
}
