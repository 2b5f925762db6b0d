use latchwork_core::Claim;
use latchwork_core::backend::decide::chain::{Listed, Standing, standing};

use super::{Attempt, Behind, Birth, Chain, Client, Fault, Node, Phase, Server, State, Watch};
use crate::explore::Broken;

impl Client {
    pub(super) fn new(claim: Claim) -> Self {
        Self {
            alive: true,
            valid: true,
            expired: false,
            phase: Phase::Idle,
            number: 0,
            name: 0,
            name_burnt: false,
            free_names: 0,
            sequence: 0,
            birth: Birth::default(),
            entered: false,
            last_turn: None,
            speaks: false,
            relies: false,
            behind: Behind::Unknown,
            claim,
            view: 0,
            owes_mark: false,
            unknown: false,
            phantom: false,
        }
    }

    pub(super) fn idle(&mut self) {
        let Self { alive, valid, expired, number, free_names, last_turn, view, .. } = *self;
        *self = Self { alive, valid, expired, number, free_names, last_turn, view, ..Self::new(self.claim) };
    }

    /// The name is free again if each request that creates or deletes it was answered.
    pub(super) fn end(&mut self) {
        if !self.name_burnt {
            self.free_names |= 1 << self.name;
        }
        self.idle();
    }
}

impl State {
    pub(super) fn attempt(&self, index: usize) -> Attempt {
        Attempt { client: u8::try_from(index).expect("few"), number: self.clients[index].number }
    }

    pub(super) fn begin(&mut self, model: &Chain, index: usize) {
        let client = &mut self.clients[index];
        client.number += 1;
        client.claim = model.claim(index, client.number);
        client.name = match client.free_names {
            0 => client.number,
            free => {
                client.free_names &= free - 1;
                u8::try_from(free.trailing_zeros()).expect("a bit's number")
            }
        };
        client.name_burnt = !model.reuses;
    }

    pub(super) fn create_answered(&mut self, model: &Chain, index: usize) {
        match self.create(model, self.attempt(index), self.clients[index].name) {
            Some(sequence) => {
                let last = self.views.len() - 1;
                let client = &mut self.clients[index];
                (client.sequence, client.view, client.phase) = (sequence, last, Phase::Listing);
                self.take_place(model, index);
                self.come_back(model, index);
            }
            None => self.clients[index].idle(),
        }
    }

    /// CHAIN-OWN-HISTORY. The distance in transactions shows that the counters are of one directory: before a
    /// join in another one, the directory must be created and others must join.
    fn come_back(&mut self, model: &Chain, index: usize) {
        if !model.returns {
            return;
        }
        let client = &mut self.clients[index];
        let own = self.views[client.view].find(client.sequence);
        client.birth = own.expect("it was made").birth;
        let Some(last) = client.last_turn.take() else { return };
        let apart = client.birth.transaction - last.transaction;
        let same = apart <= last.counter + 2 + u8::from(model.has(Fault::DirectoryUnproved));
        let next = client.birth.counter == last.counter + 1;
        if next && same && client.valid && client.claim == Claim::Exclusive {
            self.hold(model, index);
        }
    }

    /// CHAIN-SYNC-AFTER-UNKNOWN-CREATE, CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN.
    pub(super) fn resolve(&mut self, model: &Chain, index: usize) {
        let (by, last) = (self.attempt(index), self.views.len() - 1);
        let client = &mut self.clients[index];
        if model.server == Server::ZooKeeper {
            client.view = if model.has(Fault::PlainListing) { client.view } else { last };
            if let Some(node) = self.views[client.view].named(by.client, client.name).next() {
                (client.sequence, client.birth, client.phase) = (node.sequence, node.birth, Phase::Listing);
                return;
            }
        }
        self.create_answered(model, index);
    }

    pub(super) fn list(&mut self, model: &Chain, index: usize) {
        if model.server == Server::Etcd {
            self.clients[index].view = self.views.len() - 1;
        }
        let client = self.clients[index];
        let view = self.views[client.view].clone();
        let mut nodes = view.nodes.clone();
        let own = match nodes.iter().position(|node| node.sequence == client.sequence) {
            Some(own) => own,
            None if model.has(Fault::NoOwnNode) => {
                let Client { sequence, name, claim, birth, .. } = client;
                nodes.push(Node { sequence, by: self.attempt(index), name, claim, marked: false, birth });
                nodes.len() - 1
            }
            None => return self.clients[index].phase = Phase::Out,
        };
        let lax = model.has(Fault::NoDeadline) || model.has(Fault::NoOwnNode);
        if !client.valid && !lax {
            return self.clients[index].phase = Phase::Out;
        }
        let listed: Vec<Listed> = nodes.iter().map(Node::listed).collect();
        match model.standing(&listed, own, view.limit) {
            Standing::Admitted { mark } => {
                self.clients[index].phantom = !client.valid;
                self.hold(model, index);
                self.clients[index].owes_mark = mark && !model.has(Fault::NoMarks);
            }
            Standing::Head { .. } => self.clients[index].phase = Phase::Sleeping(Watch::Head),
            Standing::Behind { watch, sole } => {
                let seen = nodes[watch];
                let watches_nothing = self.sleeps_on_its_inbox(model, index);
                // etcd watches from the revision after the listing.
                self.clients[index].phase = match model.server {
                    _ if watches_nothing => Phase::Sleeping(Watch::Nothing),
                    Server::Etcd if !model.has(Fault::ArmingIgnoresAbsence) => {
                        Phase::Sleeping(Watch::Node { sequence: seen.sequence, sole })
                    }
                    _ => Phase::Arming { seen, sole },
                };
            }
        }
        // After its deadline, only a fault admits the client.
        if !client.valid && self.clients[index].phase != Phase::Holding {
            self.clients[index].phase = Phase::Out;
        }
    }

    /// CHAIN-ARM-THEN-LOOK.
    pub(super) fn arm(&mut self, model: &Chain, index: usize) {
        let Phase::Arming { seen, sole } = self.clients[index].phase else { return };
        if model.server == Server::Etcd {
            self.clients[index].view = self.views.len() - 1;
        }
        let view = &self.views[self.clients[index].view];
        let trusted = sole && model.trusts_sole(self.clients[index].claim);
        if self.misses_own(model, index, self.clients[index].view, trusted) {
            return self.clients[index].phase = Phase::Out;
        }
        // On ZooKeeper a downgraded node has another name. The fault compares the counter only.
        let by_name = model.server == Server::ZooKeeper && !model.has(Fault::ArmingIgnoresContent);
        let as_seen = match view.find(seen.sequence).filter(|node| !by_name || node.claim == seen.claim) {
            None if model.has(Fault::ArmingIgnoresAbsence) => true,
            // CHAIN-SOLE-AHEAD.
            None if trusted || model.has(Fault::AbsenceAdmits) => return self.hold(model, index),
            None => false,
            Some(node) => *node == seen || model.has(Fault::ArmingIgnoresContent),
        };
        self.clients[index].phase = match as_seen {
            true => Phase::Sleeping(Watch::Node { sequence: seen.sequence, sole }),
            false => Phase::Listing,
        };
    }

    /// A client watches its own node if an event may admit it without a listing.
    fn misses_own(&self, model: &Chain, index: usize, view: usize, sole: bool) -> bool {
        let watched = match sole {
            true => !model.has(Fault::OwnUnwatched),
            false => model.trusts_told() && !model.has(Fault::OwnUnwatchedBehindOthers),
        };
        let own = self.clients[index].sequence;
        watched && self.views[view].find(own).is_none()
    }

    pub(super) fn missed_release(&self, index: usize) -> bool {
        let client = &self.clients[index];
        let Phase::Sleeping(Watch::Node { sequence, .. }) = client.phase else { return false };
        self.views[client.view + 1..].iter().any(|view| view.told == Some(sequence))
    }

    pub(super) fn advance(&mut self, model: &Chain, index: usize) {
        let (old, new) = (self.clients[index].view, self.clients[index].view + 1);
        let limit_changed = self.views[old].limit != self.views[new].limit;
        let find = |view: usize, sequence: u8| self.views[view].find(sequence).copied();
        let departed = self.views[old].nodes.iter().any(|node| find(new, node.sequence).is_none());
        let children = self.views[old].nodes.len() != self.views[new].nodes.len() || departed;
        let client = self.clients[index];
        let (mut next, mut woken) = (client.phase, false);
        match client.phase {
            Phase::Sleeping(Watch::Node { sequence, sole }) => {
                let trusted = sole && model.trusts_sole(client.claim);
                let (before, after) = (find(old, sequence), find(new, sequence));
                let moved = before.is_some_and(|node| Some(node) != after);
                // On ZooKeeper a downgrade deletes and creates a node in one transaction.
                let renamed = after.map(|node| node.claim) != before.map(|node| node.claim);
                let deleted = after.is_none() || renamed && model.server == Server::ZooKeeper;
                let told = model.trusts_told() && self.views[new].told == Some(sequence);
                if told || moved && (after.is_none() || !model.has(Fault::WakeOnDeleteOnly)) {
                    let admits = trusted || model.has(Fault::EventAdmits);
                    // The released node was admitted, so no node before it remains.
                    let phase = if told || deleted && admits { Phase::Holding } else { Phase::Listing };
                    (next, woken) = (phase, true);
                }
                if self.misses_own(model, index, new, trusted) {
                    next = Phase::Out;
                }
            }
            // ZooKeeper's watch on children reports joins too. etcd's watch filters out puts.
            Phase::Sleeping(Watch::Head) => {
                let fires = departed || (children && model.server == Server::ZooKeeper);
                if fires || (limit_changed && !model.has(Fault::HeadIgnoresLimit)) {
                    (next, woken) = (Phase::Listing, true);
                }
            }
            _ => {}
        }
        if matches!(client.phase, Phase::Sleeping(_))
            && let Some(is_next) = self.hears(index, new)
        {
            (next, woken) = (if is_next { Phase::Told } else { Phase::Listing }, true);
        }
        // A removed client that does not know it yet does not count as woken.
        if woken && departed && find(old, client.sequence).is_some() {
            self.views[new].woken += 1;
        }
        self.clients[index].view = new;
        if next == Phase::Holding && client.phase != Phase::Holding {
            self.hold(model, index);
        } else {
            self.clients[index].phase = next;
        }
        if limit_changed && client.phase == Phase::Holding && !model.has(Fault::LimitMarksNobody) {
            self.clients[index].owes_mark = true;
        }
    }

    pub(super) fn hold(&mut self, model: &Chain, index: usize) {
        let sequence = self.clients[index].sequence;
        self.clients[index].phase = Phase::Holding;
        self.clients[index].entered = model.returns || model.tells || model.hands;
        self.highest_token = self.highest_token.max(sequence);
        if !model.limits.is_empty() {
            return;
        }
        let leader = self.leader();
        let mut ahead = leader.nodes.iter().take_while(|node| node.sequence != sequence);
        let overtaken = ahead.any(|node| leader.admits(node.sequence) == Some(false));
        if overtaken && leader.admits(sequence).is_some() {
            self.broken = Some(Broken::Overtaken);
        }
    }

    pub(super) fn leave(&mut self, model: &Chain, index: usize, told: bool) {
        let (by, client) = (self.attempt(index), self.clients[index]);
        let exclusive = model.claim(index, client.number) == Claim::Exclusive;
        if model.returns
            && (client.entered || model.has(Fault::ReturnOfAWaiter))
            && (exclusive || model.has(Fault::ReturnOfAReader))
        {
            self.clients[index].last_turn = Some(client.birth);
        }
        let tombstone =
            client.unknown && !(model.has(Fault::NoTombstoneOnceFound) && client.phase != Phase::Unknown);
        if client.phase == Phase::Unknown || tombstone {
            match model.server {
                // CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN.
                Server::Etcd => {
                    if !model.has(Fault::NoTombstone) {
                        self.tombstones.insert(by);
                    }
                    self.change(model, |view| view.remove(|node| node.by == by));
                }
                // CHAIN-SYNC-AFTER-UNKNOWN-CREATE: a node that a plain listing does not show is not removed.
                Server::ZooKeeper => {
                    let last = self.views.len() - 1;
                    let shown = if model.has(Fault::PlainListing) { client.view } else { last };
                    self.remove_named(model, shown, by, client.name);
                }
            }
        } else if model.reuses && model.server == Server::Etcd && client.phase != Phase::Leaving && !told {
            self.erase(model, by, client.name);
        } else {
            self.delete(model, by, client.sequence, told);
        }
        self.clients[index].end();
    }
}

impl Chain {
    fn claim(&self, index: usize, number: u8) -> Claim {
        if self.returns && number > 1 { Claim::Exclusive } else { self.claims[index] }
    }

    /// CHAIN-SOLE-AHEAD: no departure may be a downgrade, except for a reader.
    fn trusts_sole(&self, claim: Claim) -> bool {
        self.has(Fault::SoleDespiteDowngrade) || claim == Claim::Shared || self.is_exclusive()
    }

    /// CHAIN-ANNOUNCED-RELEASE: only of a node that was admitted alone.
    pub(super) fn trusts_told(&self) -> bool {
        self.tells && (self.is_exclusive() || self.has(Fault::ReaderTells))
    }

    fn is_exclusive(&self) -> bool {
        self.claims.iter().all(|&claim| claim == Claim::Exclusive) && self.downgrades == 0
    }

    fn standing(&self, listed: &[Listed], own: usize, limit: u32) -> Standing {
        let right = standing(listed, own, limit);
        let (Standing::Behind { .. } | Standing::Head { .. }) = right else { return right };
        let watch = match (self.fault, listed[own].claim) {
            (Some(Fault::ReadersWatchFirstWriter), Claim::Shared) => {
                listed.iter().position(|node| node.claim == Claim::Exclusive).expect("it waits for one")
            }
            (Some(Fault::ReadersWatchPredecessor), Claim::Shared)
            | (Some(Fault::PermitsWatchPredecessor), Claim::Permits(_)) => own - 1,
            (Some(Fault::ToldByTheLowest), Claim::Exclusive)
            | (Some(Fault::PermitsWatchLowest), Claim::Permits(_)) => 0,
            _ => return right,
        };
        Standing::Behind { watch, sole: own == 1 && self.has(Fault::ToldByTheLowest) }
    }
}
