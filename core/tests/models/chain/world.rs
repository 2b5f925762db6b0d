//! What the coordinator and the clients of model B do. The rules that live in the backends' shells are stated here,
//! each with its name; where a client stands is core's `standing`.

use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Listed, Standing, standing};

use super::{Attempt, Chain, Client, Fault, Late, Node, Phase, Server, State, Step, View, Watch};
use crate::explore::Broken;

impl Client {
    pub(super) fn new(claim: Claim) -> Self {
        Self {
            alive: true,
            valid: true,
            expired: false,
            phase: Phase::Idle,
            number: 0,
            sequence: 0,
            claim,
            view: 0,
            owes_mark: false,
            unknown: false,
            phantom: false,
        }
    }

    /// Back to where nothing is known, so that equal situations are equal states.
    fn idle(&mut self) {
        (self.phase, self.sequence) = (Phase::Idle, 0);
        (self.owes_mark, self.unknown, self.phantom) = (false, false, false);
    }
}

impl State {
    pub(super) fn attempt(&self, index: usize) -> Attempt {
        Attempt { client: u8::try_from(index).expect("few"), number: self.clients[index].number }
    }

    pub(super) fn step(&mut self, model: &Chain, step: Step) {
        match step {
            Step::Join(index) => {
                self.begin(model, index);
                self.create_answered(model, index);
            }
            Step::JoinUnknown(index, applied) => {
                self.begin(model, index);
                self.unknowns += 1;
                self.clients[index].phase = Phase::Unknown;
                let attempt = self.attempt(index);
                match model.server {
                    Server::ZooKeeper if applied => drop(self.create(model, attempt)),
                    Server::ZooKeeper => {}
                    Server::Etcd => {
                        self.clients[index].unknown = true;
                        self.late.insert(Late::Create(attempt));
                    }
                }
            }
            Step::Resolve(index) => self.resolve(model, index),
            Step::List(index) => self.list(model, index),
            Step::Arm(index) => self.arm(model, index),
            Step::Advance(index) => self.advance(model, index),
            Step::Mark(index) => {
                self.clients[index].owes_mark = false;
                self.mark(model, self.attempt(index), self.clients[index].sequence);
            }
            Step::MarkLate(index) => {
                self.unknowns += 1;
                self.late.insert(Late::Mark(self.attempt(index), self.clients[index].sequence));
            }
            Step::Leave(index) => self.leave(model, index),
            Step::LeaveLate(index) => {
                self.unknowns += 1;
                let client = &mut self.clients[index];
                client.phase = Phase::Leaving;
                client.owes_mark = false;
                let sequence = client.sequence;
                self.late.insert(Late::Delete(self.attempt(index), sequence));
            }
            Step::Land(late) => {
                self.late.remove(&late);
                self.land(model, late);
            }
            Step::Deadline(index) => {
                self.failures += 1;
                self.clients[index].valid = false;
                // Lost at once, by the clock; only a listing that is on its way is still processed.
                if self.clients[index].phase != Phase::Listing {
                    self.clients[index].phase = Phase::Out;
                }
            }
            Step::Crash(index) => {
                self.failures += 1;
                let client = &mut self.clients[index];
                client.idle();
                (client.alive, client.valid, client.phase) = (false, false, Phase::Out);
            }
            Step::Expire(index) => {
                self.clients[index].expired = true;
                self.change(model, |view| view.nodes.retain(|node| usize::from(node.by.client) != index));
            }
            Step::Reconnect(index) => {
                self.reconnects += 1;
                // B4: list again.
                self.clients[index].phase = if model.has(Fault::LostWatchIgnored) {
                    Phase::Sleeping(Watch::Nothing)
                } else {
                    Phase::Listing
                };
            }
            Step::Downgrade(index) => self.downgrade(model, index),
            Step::SetLimit => {
                let limit = model.limits[self.changes];
                self.changes += 1;
                self.largest_limit = self.largest_limit.max(limit);
                self.change(model, |view| view.limit = limit);
            }
        }
    }

    /// The leader takes a change; a departure gets the bound on whom it may wake.
    fn change(&mut self, model: &Chain, change: impl FnOnce(&mut View)) {
        let old = self.leader().clone();
        let mut new = View { woken: 0, most_woken: u8::MAX, ..old.clone() };
        change(&mut new);
        if new == (View { woken: 0, most_woken: u8::MAX, ..old.clone() }) {
            return;
        }
        let here = |node: &Node| new.nodes.iter().any(|other| other.sequence == node.sequence);
        if let Some(gone) = old.nodes.iter().position(|node| !here(node)) {
            let readers = old.nodes[gone + 1..].iter().take_while(|node| node.claim == Claim::Shared).count();
            new.most_woken = match old.nodes[gone].claim {
                Claim::Permits(_) => 3,
                _ => u8::try_from(readers.max(1)).expect("few"),
            };
        }
        self.views.push(new);
        if model.server == Server::ZooKeeper && self.clients.iter().all(|client| !client.alive) {
            self.views.drain(..self.views.len() - 1);
        }
    }

    /// Views that nobody will see again.
    pub(super) fn forget_old_views(&mut self) {
        let last = self.views.len() - 1;
        let watching = |client: &Client| client.alive && !matches!(client.phase, Phase::Idle | Phase::Out);
        for client in self.clients.iter_mut().filter(|client| !watching(client)) {
            client.view = last;
        }
        let oldest = self.clients.iter().map(|client| client.view).min().unwrap_or(last);
        self.views.drain(..oldest);
        for client in &mut self.clients {
            client.view -= oldest;
        }
    }

    fn begin(&mut self, model: &Chain, index: usize) {
        let client = &mut self.clients[index];
        client.number += 1;
        client.claim = model.claims[index];
    }

    /// The create was answered, so the client's server has it: what it lists from now on shows it.
    fn create_answered(&mut self, model: &Chain, index: usize) {
        match self.create(model, self.attempt(index)) {
            Some(sequence) => {
                let last = self.views.len() - 1;
                let client = &mut self.clients[index];
                (client.sequence, client.view, client.phase) = (sequence, last, Phase::Listing);
            }
            None => self.clients[index].idle(),
        }
    }

    /// Makes the node, or on etcd finds it again; `None` when the attempt is over.
    fn create(&mut self, model: &Chain, by: Attempt) -> Option<u8> {
        let client = &self.clients[usize::from(by.client)];
        if client.expired || self.tombstones.contains(&by) {
            return None;
        }
        let claim = client.claim;
        let one_name =
            |node: &&Node| node.by == by || (model.has(Fault::NamePerClient) && node.by.client == by.client);
        if model.server == Server::Etcd {
            if let Some(found) = self.leader().nodes.iter().find(one_name) {
                return Some(found.sequence);
            }
        }
        self.last += 1;
        let sequence = self.last;
        self.change(model, |view| view.nodes.push(Node { sequence, by, claim, marked: false }));
        Some(sequence)
    }

    /// What became of a create with an unknown outcome (B8, B9).
    fn resolve(&mut self, model: &Chain, index: usize) {
        match model.server {
            // Again, under the same key: found, or made, or met by its tombstone.
            Server::Etcd => self.create_answered(model, index),
            Server::ZooKeeper => {
                let by = self.attempt(index);
                if !model.has(Fault::PlainListing) {
                    self.clients[index].view = self.views.len() - 1;
                }
                let shown = &self.views[self.clients[index].view].nodes;
                match shown.iter().find(|node| node.by == by).map(|node| node.sequence) {
                    Some(sequence) => {
                        self.clients[index].sequence = sequence;
                        self.clients[index].phase = Phase::Listing;
                    }
                    None => self.create_answered(model, index),
                }
            }
        }
    }

    fn list(&mut self, model: &Chain, index: usize) {
        if model.server == Server::Etcd {
            self.clients[index].view = self.views.len() - 1;
        }
        let client = self.clients[index];
        let view = self.views[client.view].clone();
        let mut nodes = view.nodes.clone();
        let own = match nodes.iter().position(|node| node.sequence == client.sequence) {
            Some(own) => own,
            None if model.has(Fault::NoOwnNode) => {
                nodes.push(Node {
                    sequence: client.sequence,
                    by: self.attempt(index),
                    claim: client.claim,
                    marked: false,
                });
                nodes.len() - 1
            }
            // B1: the own node is gone.
            None => {
                self.clients[index].phase = Phase::Out;
                return;
            }
        };
        // B1: the deadline is the real guard, the listing may be old.
        let lax = model.has(Fault::NoDeadline) || model.has(Fault::NoOwnNode);
        if !client.valid && !lax {
            self.clients[index].phase = Phase::Out;
            return;
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
                // etcd watches from the listing's revision + 1: nothing is missed between.
                self.clients[index].phase = match model.server {
                    Server::Etcd if !model.has(Fault::ArmingIgnoresAbsence) => {
                        Phase::Sleeping(Watch::Node { sequence: seen.sequence, sole })
                    }
                    _ => Phase::Arming { seen, sole },
                };
            }
        }
        // A client that is out of time decides nothing more than the phantom admission above.
        if !client.valid && self.clients[index].phase != Phase::Holding {
            self.clients[index].phase = Phase::Out;
        }
    }

    /// B3: the read that sets the watch shows whether there is still something to wait for.
    fn arm(&mut self, model: &Chain, index: usize) {
        let Phase::Arming { seen, sole } = self.clients[index].phase else { return };
        if model.server == Server::Etcd {
            // Only with the fault: a watch from "now".
            self.clients[index].view = self.views.len() - 1;
        }
        let shown =
            self.views[self.clients[index].view].nodes.iter().find(|node| node.sequence == seen.sequence);
        let as_seen = match shown {
            None => model.has(Fault::ArmingIgnoresAbsence),
            Some(node) => *node == seen || model.has(Fault::ArmingIgnoresContent),
        };
        self.clients[index].phase = if as_seen {
            Phase::Sleeping(Watch::Node { sequence: seen.sequence, sole })
        } else {
            Phase::Listing
        };
    }

    /// The client's server shows one more change, and its watches report it.
    fn advance(&mut self, model: &Chain, index: usize) {
        let (old, new) = (self.clients[index].view, self.clients[index].view + 1);
        let limit_changed = self.views[old].limit != self.views[new].limit;
        let find = |view: usize, sequence: u8| {
            self.views[view].nodes.iter().find(|node| node.sequence == sequence).copied()
        };
        let departed = self.views[old].nodes.iter().any(|node| find(new, node.sequence).is_none());
        let children = self.views[old].nodes.len() != self.views[new].nodes.len() || departed;
        let client = self.clients[index];
        let mut next = client.phase;
        let mut woken = false;
        match client.phase {
            Phase::Sleeping(Watch::Node { sequence, sole }) => {
                let (before, after) = (find(old, sequence), find(new, sequence));
                let moved = before.is_some_and(|node| Some(node) != after);
                // On ZooKeeper a downgrade is a delete and a create in one.
                let deleted = after.is_none()
                    || (model.server == Server::ZooKeeper
                        && after.map(|n| n.claim) != before.map(|n| n.claim));
                if moved && (after.is_none() || !model.has(Fault::WakeOnDeleteOnly)) {
                    woken = true;
                    let trusted = (sole && model.trusts_sole()) || model.has(Fault::EventAdmits);
                    next = if deleted && trusted { Phase::Holding } else { Phase::Listing };
                }
            }
            // ZooKeeper's children watch also reports joins; etcd's leaves out puts.
            Phase::Sleeping(Watch::Head) => {
                let fires = departed || (children && model.server == Server::ZooKeeper);
                if fires || (limit_changed && !model.has(Fault::HeadIgnoresLimit)) {
                    woken = true;
                    next = Phase::Listing;
                }
            }
            _ => {}
        }
        if woken && departed {
            self.views[new].woken += 1;
        }
        self.clients[index].view = new;
        if next == Phase::Holding && client.phase != Phase::Holding {
            self.hold(model, index);
        } else {
            self.clients[index].phase = next;
        }
        // B6b: every holder marks its node when the limit changes, follower or not.
        if limit_changed && client.phase == Phase::Holding && !model.has(Fault::LimitMarksNobody) {
            self.clients[index].owes_mark = true;
        }
    }

    fn hold(&mut self, model: &Chain, index: usize) {
        let sequence = self.clients[index].sequence;
        self.clients[index].phase = Phase::Holding;
        self.highest_token = self.highest_token.max(sequence);
        if !model.limits.is_empty() {
            return;
        }
        let leader = self.leader();
        let listed: Vec<Listed> = leader.nodes.iter().map(Node::listed).collect();
        let overtaken = (0..leader.nodes.len())
            .take_while(|&place| leader.nodes[place].sequence != sequence)
            .any(|place| !matches!(standing(&listed, place, leader.limit), Standing::Admitted { .. }));
        if overtaken && leader.nodes.iter().any(|node| node.sequence == sequence) {
            self.broken = Some(Broken::Overtaken);
        }
    }

    /// B7: guarded by the own create revision.
    fn mark(&mut self, model: &Chain, by: Attempt, sequence: u8) {
        let claim = model.claims[usize::from(by.client)];
        let (expired, fresh) = (self.clients[usize::from(by.client)].expired, self.last + 1);
        let there = self.leader().nodes.iter().any(|node| node.sequence == sequence);
        if there {
            self.change(model, |view| {
                for node in view.nodes.iter_mut().filter(|node| node.sequence == sequence) {
                    node.marked = true;
                }
            });
        } else if model.has(Fault::MarkUnguarded) && !expired {
            self.last = fresh;
            self.change(model, |view| view.nodes.push(Node { sequence: fresh, by, claim, marked: true }));
        }
    }

    fn leave(&mut self, model: &Chain, index: usize) {
        let (by, client) = (self.attempt(index), self.clients[index]);
        let tombstone =
            client.unknown && !(model.has(Fault::NoTombstoneOnceFound) && client.phase != Phase::Unknown);
        if client.phase == Phase::Unknown || tombstone {
            match model.server {
                // B9: a tombstone, and whatever the attempt has made by now.
                Server::Etcd => {
                    if !model.has(Fault::NoTombstone) {
                        self.tombstones.insert(by);
                    }
                    self.change(model, |view| view.nodes.retain(|node| node.by != by));
                }
                // B8: what a plain listing does not show is not removed.
                Server::ZooKeeper => {
                    let shown =
                        if model.has(Fault::PlainListing) { client.view } else { self.views.len() - 1 };
                    let found: Vec<u8> = self.views[shown]
                        .nodes
                        .iter()
                        .filter(|node| node.by == by)
                        .map(|node| node.sequence)
                        .collect();
                    self.change(model, |view| view.nodes.retain(|node| !found.contains(&node.sequence)));
                }
            }
        } else {
            self.delete(model, by, client.sequence);
        }
        self.clients[index].idle();
    }

    /// NODE-LEAVE-OWN: that incarnation and nothing newer (B10).
    fn delete(&mut self, model: &Chain, by: Attempt, sequence: u8) {
        let gone = |node: &Node| {
            node.sequence == sequence || (model.has(Fault::NamePerClient) && node.by.client == by.client)
        };
        if self.leader().nodes.iter().any(|node| gone(node) && node.by != by) {
            self.broken = Some(Broken::ForeignLeave);
        }
        self.change(model, |view| view.nodes.retain(|node| !gone(node)));
    }

    fn land(&mut self, model: &Chain, late: Late) {
        match late {
            Late::Create(by) => drop(self.create(model, by)),
            Late::Delete(by, sequence) => self.delete(model, by, sequence),
            Late::Mark(by, sequence) => self.mark(model, by, sequence),
        }
    }

    /// B12: in place.
    fn downgrade(&mut self, model: &Chain, index: usize) {
        self.downgrades += 1;
        let (by, sequence, fresh) = (self.attempt(index), self.clients[index].sequence, self.last + 1);
        self.clients[index].claim = Claim::Shared;
        if model.has(Fault::DowngradeAtTail) {
            self.last = fresh;
            self.clients[index].sequence = fresh;
            self.change(model, |view| {
                view.nodes.retain(|node| node.sequence != sequence);
                view.nodes.push(Node { sequence: fresh, by, claim: Claim::Shared, marked: false });
            });
        } else {
            self.change(model, |view| {
                for node in view.nodes.iter_mut().filter(|node| node.sequence == sequence) {
                    node.claim = Claim::Shared;
                }
            });
        }
    }
}

impl Chain {
    /// A departure admits without listing again only where a departure cannot be a downgrade.
    fn trusts_sole(&self) -> bool {
        self.has(Fault::SoleDespiteDowngrade)
            || self.claims.iter().all(|&claim| claim == Claim::Exclusive) && self.downgrades == 0
    }

    /// Core's decision, or a wrong one.
    fn standing(&self, listed: &[Listed], own: usize, limit: u32) -> Standing {
        let right = standing(listed, own, limit);
        let (Standing::Behind { .. } | Standing::Head { .. }) = right else { return right };
        let sole = false;
        match (self.fault, listed[own].claim) {
            (Some(Fault::ReadersWatchFirstWriter), Claim::Shared) => {
                let watch =
                    listed.iter().position(|node| node.claim == Claim::Exclusive).expect("it waits for one");
                Standing::Behind { watch, sole }
            }
            (Some(Fault::ReadersWatchPredecessor), Claim::Shared) => {
                Standing::Behind { watch: own - 1, sole }
            }
            (Some(Fault::PermitsWatchLowest), Claim::Permits(_)) => Standing::Behind { watch: 0, sole },
            (Some(Fault::PermitsWatchPredecessor), Claim::Permits(_)) => {
                Standing::Behind { watch: own - 1, sole }
            }
            _ => right,
        }
    }
}
