//! The vocabulary: each event and span by name, with its level and fields.

use std::fmt::{Debug, Display};

use tracing::Level;

use crate::decide::moving::evidence::Contradiction;
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, LostReason};
use crate::token::Token;

/// The target of all events and spans of this module: the filter `latchwork=debug` shows them.
pub const TARGET: &str = "latchwork";

/// An event that the library writes to [`tracing`].
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The name in its metadata. Later releases do not change it.
    pub name: &'static str,
    /// The level.
    pub level: Level,
    /// The text for readers.
    pub message: &'static str,
    sources: &'static str,
}

/// A span that the library opens; its level is debug.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The name in its metadata.
    pub name: &'static str,
    sources: &'static str,
}

impl Event {
    /// Returns the names of the fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        names(self.sources)
    }
}

impl Span {
    /// Returns the names of the fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        names(self.sources)
    }
}

/// Returns the names in a list of fields, written as for the macros of `tracing`.
fn names(sources: &'static str) -> impl Iterator<Item = &'static str> + use<> {
    sources.split(',').map(|field| field.trim().trim_start_matches(['?', '%']).trim())
}

macro_rules! events {
    ($($(#[$doc:meta])* $visible:vis fn $function:ident($($argument:ident: $type:ty),+)
        = $level:ident $name:literal [$($field:tt)+] $message:literal;)+) => {
        $($(#[$doc])* $visible fn $function($($argument: $type),+) {
            tracing::event!(name: $name, target: TARGET, Level::$level, { $($field)+ }, $message);
        })+

        /// All events; the guide's tables have them too.
        pub const EVENTS: &[Event] = &[$(Event {
            name: $name,
            level: Level::$level,
            message: $message,
            sources: stringify!($($field)+),
        }),+];
    };
}

events! {
    /// Reports that a client is connected.
    pub(crate) fn connected(backend: &str, hosts: &str, took: impl Debug)
        = INFO "latchwork.connected" [backend, hosts, ?took] "connected";

    /// Reports a broken connection.
    pub(crate) fn broken(backend: &str, host: &str, cause: &dyn Display)
        = WARN "latchwork.disconnected" [backend, host, %cause] "disconnected";

    /// Reports that a connection works again.
    pub(crate) fn mended(backend: &str, host: &str, after: impl Debug)
        = INFO "latchwork.reconnected" [backend, host, ?after] "reconnected";

    /// Reports a renewal without an answer in its period.
    pub(crate) fn renewal_late(backend: &str, left: impl Debug)
        = DEBUG "latchwork.renewal.late" [backend, ?left] "the server did not answer a renewal in time";

    /// Reports a suspended lease.
    pub(crate) fn suspended(backend: &str, left: impl Debug)
        = WARN "latchwork.lease.suspended" [backend, ?left] "the coordinator does not answer: the lease is suspended";

    /// Reports that a suspended lease is live again.
    pub(crate) fn resumed(backend: &str, after: impl Debug)
        = INFO "latchwork.lease.resumed" [backend, ?after] "the coordinator answered in time: the lease is live again";

    /// Reports a lost lease.
    pub(crate) fn lease_lost(backend: &str, reason: LostReason)
        = WARN "latchwork.lease.lost" [backend, %reason] "the lease is lost, with all its holds";

    /// Reports an acquisition that succeeded.
    pub(super) fn acquired(recipe: &str, key: &str, token: Token, waited: impl Debug)
        = DEBUG "latchwork.acquired" [recipe, key, %token, ?waited] "acquired";

    /// Reports an acquisition that failed.
    pub(super) fn not_acquired(recipe: &str, key: &str, waited: impl Debug, outcome: &str, error: &Error)
        = DEBUG "latchwork.not_acquired" [recipe, key, ?waited, outcome, %error] "not acquired";

    /// Reports a hold that its owner released.
    pub(super) fn released(recipe: &str, key: &str, token: Token, held: impl Debug)
        = DEBUG "latchwork.released" [recipe, key, %token, ?held] "released";

    /// Reports a lost hold.
    pub(super) fn hold_lost(recipe: &str, key: &str, token: Token, reason: LostReason)
        = WARN "latchwork.hold.lost" [recipe, key, %token, %reason] "a hold was lost before its release";

    /// Reports a hold that is lost because its client closes.
    pub(super) fn hold_closed(recipe: &str, key: &str, token: Token, reason: LostReason)
        = DEBUG "latchwork.hold.closed" [recipe, key, %token, %reason] "a hold was lost because its coordinator was closed";

    /// Reports a release without an answer.
    pub(crate) fn release_unconfirmed(key: &str, token: Token, error: &Error)
        = DEBUG "latchwork.release.unconfirmed" [key, %token, %error] "a release was not confirmed: the client tries it again";

    /// Reports that the close after failed work has failed too.
    pub fn not_given_back(error: &Error)
        = WARN "latchwork.not_given_back" [%error] "the work failed, and the close after it did not release all holds: they become free when their leases end";

    /// Reports a change that a re-check found without an event.
    pub(super) fn recheck_found(backend: &str, what: &str)
        = DEBUG "latchwork.recheck.found" [backend, what] "a re-check found a change whose event was lost";

    /// Reports that a client registers again.
    pub(crate) fn registered_anew(backend: &str, reason: LostReason)
        = DEBUG "latchwork.registry.anew" [backend, %reason] "this client is not registered any more: it registers again";

    /// Reports that the first client of a namespace has written the layout.
    pub(crate) fn layout_stamped(backend: &str, layout: u32)
        = DEBUG "latchwork.layout.stamped" [backend, layout] "the layout of a new namespace was stored";

    /// Reports that an operator has raised the layout.
    pub(crate) fn layout_raised(backend: &str, layout: u32)
        = INFO "latchwork.layout.raised" [backend, layout] "the layout of the namespace was raised";

    /// Reports that the layout of the namespace is too new for this client.
    pub(crate) fn layout_ended(backend: &str, error: &Error)
        = ERROR "latchwork.layout.ended" [backend, %error]
        "the layout was raised while this client was disconnected: this build is too old, and the client ends";

    /// Reports that the namespace of this client has moved to another server.
    pub(crate) fn move_ended(backend: &str, error: &Error)
        = ERROR "latchwork.move.ended" [backend, %error]
        "the namespace moved while this client was disconnected: the client ends";

    /// Reports that an operator has retired the namespace. `to` is the URL in the error of refused clients.
    pub(crate) fn retired(backend: &str, namespace: &str, to: &str)
        = INFO "latchwork.namespace.retired" [backend, namespace, to] "the namespace is retired: it refuses clients";

    /// Reports that an operator has reopened a namespace.
    pub(crate) fn reopened(backend: &str, namespace: &str)
        = INFO "latchwork.namespace.reopened" [backend, namespace] "the namespace accepts clients again";

    /// Reports that a participant of a move has acknowledged a phase.
    pub(crate) fn phase_reached(phase: MovePhase, epoch: u16, took: impl Debug)
        = INFO "latchwork.move.reached" [%phase, epoch, ?took] "this client acknowledged a phase of its move: all its holds follow it";

    /// Reports that the sides of a move contradict each other.
    pub(crate) fn move_contradicts(found: Contradiction)
        = WARN "latchwork.move.contradicts" [%found]
        "the two sides of the move contradict each other: this client acquires nothing until they agree";

    /// Reports that a participant is not a member of its move any more.
    pub(crate) fn no_member(error: &Error)
        = WARN "latchwork.move.away" [%error]
        "this client is not a member of its move any more: its holds are lost, and it acquires nothing until it has rejoined";

    /// Reports that a hold of a participant ended with its lease on a side of the move, `old` or `new`.
    pub(crate) fn move_lost(key: &str, token: Token, side: &str, backend: &str, reason: LostReason)
        = DEBUG "latchwork.move.lost" [key, %token, side, backend, %reason]
        "a hold ended because its lease ended on one side of the move";

    /// Reports that an operator has taken a move to its next phase, forward or back.
    pub(crate) fn move_phase(name: &str, phase: MovePhase, epoch: u16)
        = INFO "latchwork.move.phase" [name, %phase, epoch] "the move has entered a phase";

    /// Reports how many members the next step of a move waits for.
    pub(crate) fn move_waits(name: &str, phase: MovePhase, members: usize)
        = INFO "latchwork.move.waits" [name, %phase, members]
        "the move waits for members that have not acknowledged its phase";

    /// Reports that an operator has restored a marker that a server lost during the move.
    pub(crate) fn move_repaired(name: &str, side: Side)
        = WARN "latchwork.move.repaired" [name, ?side]
        "a part of the move was missing on one side and is restored: clients with one URL may have connected there";

    /// Reports that an operator has copied the values to a side, which serves them from now on.
    pub(crate) fn values_moved(name: &str, to: &str, values: usize)
        = INFO "latchwork.move.values" [name, to, values] "the values were copied to the other side of the move and are used there now";

    /// Reports that an operator has given up a move.
    pub(crate) fn move_given_up(name: &str)
        = INFO "latchwork.move.given_up" [name] "the move was given up: both namespaces accept clients";

    /// Reports that an operator has finished a move. `to` is the URL in the error of refused clients.
    pub(crate) fn move_finished(name: &str, to: &str)
        = INFO "latchwork.move.finished" [name, to] "the move is finished: the old side refuses clients";

    /// Reports that the server has another identity than before: holds may be forgotten.
    pub fn replaced(backend: &str, host: &str)
        = INFO "latchwork.server.replaced" [backend, host]
        "the server was replaced or restarted: it may have forgotten holds";

    /// Reports that the server has forgotten holds. `seen` and `now` are its counters of writes.
    pub fn forgot(backend: &str, hosts: &str, seen: u64, now: Option<u64>)
        = WARN "latchwork.server.forgot" [backend, hosts, seen, now]
        "the server was started without its data, or set back to an earlier state: it has forgotten holds";

    /// Reports that a server of a cluster is down while a client connects to the others.
    pub fn shard_down(backend: &str, host: &str, error: &Error)
        = WARN "latchwork.server.down" [backend, host, %error] "a server of the cluster is down";

    /// Reports renewed certificates that are not usable: connections use the previous ones.
    pub fn certificates_refused(error: &Error)
        = WARN "latchwork.tls.refused" [%error] "the renewed certificates are not usable: the client keeps the previous ones";

    /// Reports that this machine gives no local port, or accepts no connection, for the relay of TLS connections.
    pub fn relay_failed(backend: &str, error: &dyn Display)
        = WARN "latchwork.tls.relay" [backend, %error] "the local relay of TLS connections does not work";

    /// Reports that the server's wall clock was changed.
    pub fn clock_set(backend: &str, step_ms: i64)
        = WARN "latchwork.server.clock_set" [backend, step_ms]
        "the server's clock was changed: leases may have expired early, and their holders notice it late";

    /// Reports that the server refused a message to another client.
    pub fn publish_refused(backend: &str)
        = WARN "latchwork.server.publish_refused" [backend]
        "the server refused to publish to another client: hand-offs and watches are slow until the ACL of this login allows the channels";

    /// Reports that another program writes into the namespace. `at` is the queue or the node.
    pub fn intruder(backend: &str, at: &str)
        = WARN "latchwork.intruder" [backend, at]
        "a hold is lost because it was out of turn: another program writes into this namespace";

    /// Reports a server that is not set up as locks need it. `at` is the place, `what` the advice.
    pub fn advice(backend: &str, at: &str, what: &dyn Display)
        = WARN "latchwork.server.advice" [backend, at, %what] "a setting of the server is unsuitable for locks";
}

macro_rules! spans {
    ($($(#[$doc:meta])* fn $function:ident($($argument:ident: $type:ty),+)
        = $name:literal [$($field:tt)+] [$($later:ident),+];)+) => {
        $($(#[$doc])* pub(super) fn $function($($argument: $type),+) -> tracing::Span {
            tracing::debug_span!(target: TARGET, $name, $($field)+, $($later = tracing::field::Empty),+)
        })+

        /// All spans.
        pub const SPANS: &[Span] = &[$(Span { name: $name, sources: stringify!($($field)+, $($later),+) }),+];
    };
}

spans! {
    /// An acquisition, from the call to its outcome.
    fn acquiring(recipe: &str, key: &str) = "latchwork.acquire" [recipe, key] [waited, outcome];

    /// A hold, from its acquisition to its end.
    fn holding(recipe: &str, key: &str, token: Token, waited: impl Debug)
        = "latchwork.hold" [recipe, key, %token, ?waited] [lost];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fields_are_read_without_their_marks() {
        let names: BTreeSet<_> = EVENTS.iter().map(|event| event.name).collect();
        assert_eq!(names.len(), EVENTS.len());
        let lost = EVENTS.iter().find(|event| event.name == "latchwork.hold.lost").expect("named so");
        assert_eq!(lost.fields().collect::<Vec<_>>(), ["recipe", "key", "token", "reason"]);
        assert_eq!(SPANS[1].fields().collect::<Vec<_>>(), ["recipe", "key", "token", "waited", "lost"]);
    }
}
