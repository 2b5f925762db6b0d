//! The coordinator: how each step changes the queue, and which views remain.

use latchwork_core::Claim;

use super::{Attempt, Birth, Chain, Client, Fault, Late, Node, Phase, Server, State, Step, View, Watch};
use crate::explore::Broken;

impl State {
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
                self.clients[index].name_burnt = true;
                let (attempt, name) = (self.attempt(index), self.clients[index].name);
                match model.server {
                    Server::ZooKeeper if applied => drop(self.create(model, attempt, name)),
                    Server::ZooKeeper => {}
                    Server::Etcd => {
                        self.clients[index].unknown = true;
                        self.late.insert(Late::Create(attempt, name));
                    }
                }
            }
            Step::Resolve(index) => self.resolve(model, index),
            Step::List(index) => self.list(model, index),
            Step::Arm(index) => self.arm(model, index),
            Step::Told(index) => self.told(model, index),
            Step::LookBehind(index) => self.look_behind(model, index),
            Step::Say(index) => {
                let word = self.word(model, index);
                if self.say(model, word) {
                    let client = &mut self.clients[index];
                    if !client.name_burnt {
                        client.free_names |= 1 << client.name;
                    }
                    client.idle();
                } else {
                    // The other branch of the transaction reads which node is behind.
                    self.look_behind(model, index);
                }
            }
            Step::SayLate(index) => {
                self.unknowns += 1;
                self.late.insert(Late::Say(self.word(model, index)));
                let client = &mut self.clients[index];
                (client.phase, client.name_burnt) = (Phase::Leaving, true);
            }
            Step::Advance(index) => self.advance(model, index),
            Step::Mark(index) => {
                self.clients[index].owes_mark = false;
                self.mark(model, self.attempt(index), self.clients[index].sequence);
            }
            Step::MarkLate(index) => {
                self.unknowns += 1;
                self.late.insert(Late::Mark(self.attempt(index), self.clients[index].sequence));
            }
            Step::Leave(index) => self.leave(model, index, false),
            Step::Tell(index) => self.leave(model, index, true),
            Step::LeaveLate(index) | Step::TellLate(index) => {
                self.unknowns += 1;
                let client = &mut self.clients[index];
                client.phase = Phase::Leaving;
                client.owes_mark = false;
                client.name_burnt |= !model.has(Fault::NameFreedEarly);
                if model.has(Fault::NameFreedUnconfirmed) {
                    client.free_names |= 1 << client.name;
                }
                // On ZooKeeper a path names one incarnation. In another directory the counter may
                // come again but not the name: a leave without an answer uses the name up.
                let late = match step {
                    Step::TellLate(_) => Late::Tell(self.attempt(index), self.clients[index].sequence),
                    _ => self.late_leave(model.reuses && model.server == Server::Etcd, index),
                };
                self.late.insert(late);
                if model.has(Fault::NameFreedUnconfirmed) {
                    self.clients[index].idle();
                }
            }
            Step::LeaveTwice(index) => {
                self.unknowns += 1;
                let late = self.late_leave(model.has(Fault::SecondLeaveUnguarded), index);
                self.late.insert(late);
                self.leave(model, index, false);
            }
            Step::Land(late) => {
                self.late.remove(&late);
                self.land(model, late);
            }
            Step::Deadline(index) => {
                self.failures += 1;
                self.clients[index].valid = false;
                // The clock ends the hold at once. Only an answer that is on its way is still
                // processed.
                if !matches!(self.clients[index].phase, Phase::Listing | Phase::Told) {
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
                if model.has(Fault::MissedReleaseAdmits) && self.missed_release(index) {
                    self.clients[index].view = self.views.len() - 1;
                    return self.hold(model, index);
                }
                // CHAIN-LOST-WATCH-LISTS-AGAIN
                self.clients[index].phase = if model.has(Fault::LostWatchIgnored) {
                    Phase::Sleeping(Watch::Nothing)
                } else {
                    Phase::Listing
                };
            }
            Step::Downgrade(index) => self.downgrade(model, index),
            Step::Write(index) => {
                let sequence = self.clients[index].sequence;
                self.change(model, |view| view.told = Some(sequence));
            }
            Step::Remove(index) => {
                self.removals += 1;
                let sequence = self.clients[index].sequence;
                self.change(model, |view| view.nodes.retain(|node| node.sequence != sequence));
            }
            Step::Collect => {
                self.collections += 1;
                // The next join makes the directory again, at best in the same transaction.
                self.next.counter = 0;
            }
            Step::SetLimit => {
                let limit = model.limits[self.changes];
                self.changes += 1;
                self.largest_limit = self.largest_limit.max(limit);
                self.change(model, |view| view.limit = limit);
            }
        }
    }

    /// The leader applies a change. A departure gets a bound on the clients that it may wake.
    pub(super) fn change(&mut self, model: &Chain, change: impl FnOnce(&mut View)) {
        let old = self.leader().clone();
        let same = View { told: None, said: None, woken: 0, most_woken: u8::MAX, ..old.clone() };
        let mut new = same.clone();
        change(&mut new);
        if new == same {
            return;
        }
        let here = |node: &Node| new.nodes.iter().any(|other| other.sequence == node.sequence);
        self.next.transaction += u8::from(model.returns);
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

    /// Drops the views that no client will see again.
    pub(super) fn forget_old_views(&mut self) {
        let last = self.views.len() - 1;
        let watching = |client: &Client| client.alive && !matches!(client.phase, Phase::Idle | Phase::Out);
        for client in self.clients.iter_mut().filter(|client| !watching(client)) {
            client.view = last;
        }
        let oldest = self.clients.iter().map(|client| client.view).min().unwrap_or(last);
        self.views.drain(..oldest);
        // Every client has seen the events of this view, or was not there.
        (self.views[0].told, self.views[0].said) = (None, None);
        for client in &mut self.clients {
            client.view -= oldest;
        }
    }

    /// Creates the node, or on etcd finds it again. `None` when the attempt is over.
    pub(super) fn create(&mut self, model: &Chain, by: Attempt, name: u8) -> Option<u8> {
        let client = &self.clients[usize::from(by.client)];
        if client.expired || self.tombstones.contains(&by) {
            return None;
        }
        let claim = client.claim;
        let one_name = |node: &&Node| {
            node.by.client == by.client && (node.name == name || model.has(Fault::NamePerClient))
        };
        let found = self.leader().nodes.iter().find(one_name).map(|node| node.sequence);
        if model.server == Server::Etcd && found.is_some() {
            return found;
        }
        self.last += 1;
        let (sequence, birth) = (self.last, self.next);
        self.next.counter += u8::from(model.returns);
        self.change(model, |view| view.nodes.push(Node { sequence, by, name, claim, marked: false, birth }));
        Some(sequence)
    }

    /// Compares the own create revision (CHAIN-MARK-GUARDED).
    pub(super) fn mark(&mut self, model: &Chain, by: Attempt, sequence: u8) {
        let claim = model.claims[usize::from(by.client)];
        let (expired, fresh) = (self.clients[usize::from(by.client)].expired, self.last + 1);
        let name = by.number;
        let there = self.leader().nodes.iter().any(|node| node.sequence == sequence);
        if there {
            self.change(model, |view| {
                for node in view.nodes.iter_mut().filter(|node| node.sequence == sequence) {
                    node.marked = true;
                }
            });
        } else if model.has(Fault::MarkUnguarded) && !expired {
            self.last = fresh;
            self.change(model, |view| {
                view.nodes.push(Node {
                    sequence: fresh,
                    by,
                    name,
                    claim,
                    marked: true,
                    birth: Birth::default(),
                });
            });
        }
    }

    /// Removes that incarnation and nothing newer (NODE-LEAVE-OWN, CHAIN-FRESH-NAME).
    pub(super) fn delete(&mut self, model: &Chain, by: Attempt, sequence: u8, told: bool) {
        let gone = |node: &Node| {
            node.sequence == sequence || (model.has(Fault::NamePerClient) && node.by.client == by.client)
        };
        if self.leader().nodes.iter().any(|node| gone(node) && node.by != by) {
            self.broken = Some(Broken::ForeignLeave);
        }
        let told = told && model.tells && self.leader().nodes.iter().any(gone);
        self.change(model, |view| {
            view.nodes.retain(|node| !gone(node));
            view.told = told.then_some(sequence);
        });
    }

    /// Deletes any node of this name, without a condition.
    pub(super) fn erase(&mut self, model: &Chain, by: Attempt, name: u8) {
        if self.leader().named(by.client, name).any(|node| node.by != by) {
            self.broken = Some(Broken::ForeignLeave);
        }
        let gone: Vec<u8> = self.leader().named(by.client, name).map(|node| node.sequence).collect();
        self.change(model, |view| view.nodes.retain(|node| !gone.contains(&node.sequence)));
    }

    /// A leave of this client's node that will be carried out later.
    fn late_leave(&self, unguarded: bool, index: usize) -> Late {
        let (by, client) = (self.attempt(index), &self.clients[index]);
        if unguarded { Late::Erase(by, client.name) } else { Late::Delete(by, client.sequence) }
    }

    pub(super) fn land(&mut self, model: &Chain, late: Late) {
        match late {
            Late::Create(by, name) => drop(self.create(model, by, name)),
            Late::Delete(by, sequence) => self.delete(model, by, sequence, false),
            Late::Tell(by, sequence) => self.delete(model, by, sequence, true),
            Late::Say(word) => drop(self.say(model, word)),
            Late::Erase(by, name) => self.erase(model, by, name),
            Late::Mark(by, sequence) => self.mark(model, by, sequence),
        }
    }

    /// Keeps the node's place (CHAIN-DOWNGRADE-IN-PLACE).
    pub(super) fn downgrade(&mut self, model: &Chain, index: usize) {
        self.downgrades += 1;
        let (by, sequence, fresh) = (self.attempt(index), self.clients[index].sequence, self.last + 1);
        let name = self.clients[index].name;
        self.clients[index].claim = Claim::Shared;
        if model.has(Fault::DowngradeAtTail) {
            self.last = fresh;
            self.clients[index].sequence = fresh;
            self.change(model, |view| {
                view.nodes.retain(|node| node.sequence != sequence);
                let (claim, birth) = (Claim::Shared, Birth::default());
                view.nodes.push(Node { sequence: fresh, by, name, claim, marked: false, birth });
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
