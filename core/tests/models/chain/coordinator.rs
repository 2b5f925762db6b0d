use latchwork_core::Claim;

use super::{Attempt, Birth, Chain, Client, Fault, Late, Node, Phase, Server, State, Step, View, Watch};
use crate::explore::Broken;

impl State {
    fn count(&mut self, step: Step) {
        match step {
            Step::JoinUnknown(..) | Step::LeaveLate(_) | Step::TellLate(_) => self.unknowns += 1,
            Step::SayLate(_) | Step::MarkLate(_) | Step::LeaveTwice(_) => self.unknowns += 1,
            Step::Deadline(_) | Step::Crash(_) => self.failures += 1,
            Step::Reconnect(_) => self.reconnects += 1,
            Step::Downgrade(_) => self.downgrades += 1,
            Step::Remove(_) => self.removals += 1,
            Step::Collect => self.collections += 1,
            _ => {}
        }
    }

    pub(super) fn step(&mut self, model: &Chain, step: Step) {
        self.count(step);
        match step {
            Step::Join(index) => {
                self.begin(model, index);
                self.create_answered(model, index);
            }
            Step::JoinUnknown(index, applied) => {
                self.begin(model, index);
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
                match self.say(model, word) {
                    true => self.clients[index].end(),
                    false => self.look_behind(model, index),
                }
            }
            Step::SayLate(index) => {
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
                self.late.insert(Late::Mark(self.attempt(index), self.clients[index].sequence));
            }
            Step::Leave(index) => self.leave(model, index, false),
            Step::Tell(index) => self.leave(model, index, true),
            Step::LeaveLate(index) | Step::TellLate(index) => {
                let client = &mut self.clients[index];
                (client.phase, client.owes_mark) = (Phase::Leaving, false);
                client.name_burnt |= !model.has(Fault::NameFreedEarly);
                // On ZooKeeper a path names one incarnation. In another directory the counter may come again,
                // but not the name, because a leave without an answer uses the name up.
                let late = match step {
                    Step::TellLate(_) => Late::Tell(self.attempt(index), self.clients[index].sequence),
                    _ => self.late_leave(model.reuses && model.server == Server::Etcd, index),
                };
                self.late.insert(late);
                if model.has(Fault::NameFreedUnconfirmed) {
                    self.clients[index].name_burnt = false;
                    self.clients[index].end();
                }
            }
            Step::LeaveTwice(index) => {
                let late = self.late_leave(model.has(Fault::SecondLeaveUnguarded), index);
                self.late.insert(late);
                self.leave(model, index, false);
            }
            Step::Downgrade(index) => self.downgrade(model, index),
            Step::Land(late) => {
                self.late.remove(&late);
                self.land(model, late);
            }
            _ => self.happens(model, step),
        }
    }

    fn happens(&mut self, model: &Chain, step: Step) {
        match step {
            Step::Deadline(index) => {
                self.clients[index].valid = false;
                // An answer that is on its way is still processed.
                if !matches!(self.clients[index].phase, Phase::Listing | Phase::Told) {
                    self.clients[index].phase = Phase::Out;
                }
            }
            Step::Crash(index) => {
                let client = &mut self.clients[index];
                client.idle();
                (client.alive, client.valid, client.phase) = (false, false, Phase::Out);
            }
            Step::Expire(index) => {
                self.clients[index].expired = true;
                self.change(model, |view| view.remove(|node| usize::from(node.by.client) == index));
            }
            Step::Reconnect(index) => {
                if model.has(Fault::MissedReleaseAdmits) && self.missed_release(index) {
                    self.clients[index].view = self.views.len() - 1;
                    return self.hold(model, index);
                }
                // CHAIN-LOST-WATCH-LISTS-AGAIN
                self.clients[index].phase = match model.has(Fault::LostWatchIgnored) {
                    true => Phase::Sleeping(Watch::Nothing),
                    false => Phase::Listing,
                };
            }
            Step::Write(index) => {
                let sequence = self.clients[index].sequence;
                self.change(model, |view| view.told = Some(sequence));
            }
            Step::Remove(index) => {
                let sequence = self.clients[index].sequence;
                self.change(model, |view| view.remove(|node| node.sequence == sequence));
            }
            Step::Collect => self.next.counter = 0,
            Step::SetLimit => {
                let limit = model.limits[self.changes];
                self.changes += 1;
                self.largest_limit = self.largest_limit.max(limit);
                self.change(model, |view| view.limit = limit);
            }
            _ => unreachable!("a client takes {step:?}"),
        }
    }

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

    pub(super) fn forget_old_views(&mut self) {
        let last = self.views.len() - 1;
        let watching = |client: &Client| client.alive && !matches!(client.phase, Phase::Idle | Phase::Out);
        self.clients.iter_mut().filter(|client| !watching(client)).for_each(|client| client.view = last);
        let oldest = self.clients.iter().map(|client| client.view).min().unwrap_or(last);
        self.views.drain(..oldest);
        (self.views[0].told, self.views[0].said) = (None, None);
        self.clients.iter_mut().for_each(|client| client.view -= oldest);
    }

    /// etcd may find the node again. Returns `None` if the attempt is over.
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

    /// CHAIN-MARK-GUARDED.
    pub(super) fn mark(&mut self, model: &Chain, by: Attempt, sequence: u8) {
        let client = usize::from(by.client);
        if self.leader().find(sequence).is_some() {
            self.change(model, |view| view.change(sequence, |node| node.marked = true));
        } else if model.has(Fault::MarkUnguarded) && !self.clients[client].expired {
            self.last += 1;
            let (claim, birth) = (model.claims[client], Birth::default());
            let made = Node { sequence: self.last, by, name: by.number, claim, marked: true, birth };
            self.change(model, |view| view.nodes.push(made));
        }
    }

    /// NODE-LEAVE-OWN, CHAIN-FRESH-NAME.
    pub(super) fn delete(&mut self, model: &Chain, by: Attempt, sequence: u8, told: bool) {
        let gone = |node: &Node| {
            node.sequence == sequence || (model.has(Fault::NamePerClient) && node.by.client == by.client)
        };
        if self.leader().nodes.iter().any(|node| gone(node) && node.by != by) {
            self.broken = Some(Broken::ForeignLeave);
        }
        let told = told && model.tells && self.leader().nodes.iter().any(gone);
        self.change(model, |view| {
            view.remove(gone);
            view.told = told.then_some(sequence);
        });
    }

    pub(super) fn erase(&mut self, model: &Chain, by: Attempt, name: u8) {
        if self.leader().named(by.client, name).any(|node| node.by != by) {
            self.broken = Some(Broken::ForeignLeave);
        }
        self.remove_named(model, self.views.len() - 1, by, name);
    }

    pub(super) fn remove_named(&mut self, model: &Chain, shown: usize, by: Attempt, name: u8) {
        let gone: Vec<u8> = self.views[shown].named(by.client, name).map(|node| node.sequence).collect();
        self.change(model, |view| view.remove(|node| gone.contains(&node.sequence)));
    }

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

    /// CHAIN-DOWNGRADE-IN-PLACE.
    pub(super) fn downgrade(&mut self, model: &Chain, index: usize) {
        let (by, client) = (self.attempt(index), &mut self.clients[index]);
        let (sequence, name, claim) = (client.sequence, client.name, Claim::Shared);
        client.claim = claim;
        if model.has(Fault::DowngradeAtTail) {
            self.last += 1;
            client.sequence = self.last;
            let made = Node { sequence: self.last, by, name, claim, marked: false, birth: Birth::default() };
            self.change(model, |view| {
                view.remove(|node| node.sequence == sequence);
                view.nodes.push(made);
            });
        } else {
            self.change(model, |view| view.change(sequence, |node| node.claim = Claim::Shared));
        }
    }
}
