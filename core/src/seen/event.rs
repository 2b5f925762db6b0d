//! The vocabulary: each event and span by name, with its level and fields.

use std::fmt::{Debug, Display};

use tracing::Level;

use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, LostReason};
use crate::token::Token;

/// The target of all events and spans of this module: the filter `latchwork=debug` shows them.
pub const TARGET: &str = "latchwork";

/// An event that the library writes to [`tracing`].
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The name in its metadata. It stays as it is from release to release.
    pub name: &'static str,
    /// Its level.
    pub level: Level,
    /// What it says to a reader.
    pub message: &'static str,
    sources: &'static str,
}

/// A span of the library; all are at debug.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Its name.
    pub name: &'static str,
    sources: &'static str,
}

impl Event {
    /// The names of its fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        names(self.sources)
    }
}

impl Span {
    /// The names of its fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        names(self.sources)
    }
}

/// The names in a list of fields as the macros of `tracing` take it.
fn names(sources: &'static str) -> impl Iterator<Item = &'static str> + use<> {
    sources.split(',').map(|field| field.trim().trim_start_matches(['?', '%']).trim())
}

macro_rules! events {
    ($($(#[$doc:meta])* $visible:vis fn $function:ident($($argument:ident: $type:ty),+)
        = $level:ident $name:literal [$($field:tt)+] $message:literal;)+) => {
        $($(#[$doc])* $visible fn $function($($argument: $type),+) {
            tracing::event!(name: $name, target: TARGET, Level::$level, { $($field)+ }, $message);
        })+

        /// All events, in the order of the guide's table.
        pub const EVENTS: &[Event] = &[$(Event {
            name: $name,
            level: Level::$level,
            message: $message,
            sources: stringify!($($field)+),
        }),+];
    };
}

events! {
    /// A client is connected.
    pub(crate) fn connected(backend: &str, hosts: &str, took: impl Debug)
        = INFO "latchwork.connected" [backend, hosts, ?took] "connected";

    /// A connection broke.
    pub(crate) fn broken(backend: &str, host: &str, cause: &dyn Display)
        = WARN "latchwork.disconnected" [backend, host, %cause] "disconnected";

    /// A connection serves again.
    pub(crate) fn mended(backend: &str, host: &str, after: impl Debug)
        = INFO "latchwork.reconnected" [backend, host, ?after] "reconnected";

    /// A renewal has no answer when it is due.
    pub(crate) fn renewal_late(backend: &str, left: impl Debug)
        = DEBUG "latchwork.renewal.late" [backend, ?left] "a renewal was not answered in time";

    /// A lease is suspended.
    pub(crate) fn suspended(backend: &str, left: impl Debug)
        = WARN "latchwork.lease.suspended" [backend, ?left] "the coordinator does not answer: the lease is suspended";

    /// A suspended lease is live again.
    pub(crate) fn resumed(backend: &str, after: impl Debug)
        = INFO "latchwork.lease.resumed" [backend, ?after] "the lease is live again";

    /// A lease is lost.
    pub(crate) fn lease_lost(backend: &str, reason: LostReason)
        = WARN "latchwork.lease.lost" [backend, %reason] "the lease is lost, and all that was held on it";

    /// An acquisition has its hold.
    pub(super) fn acquired(recipe: &str, key: &str, token: Token, waited: impl Debug)
        = DEBUG "latchwork.acquired" [recipe, key, %token, ?waited] "acquired";

    /// An acquisition failed.
    pub(super) fn not_acquired(recipe: &str, key: &str, waited: impl Debug, outcome: &str, error: &Error)
        = DEBUG "latchwork.not_acquired" [recipe, key, ?waited, outcome, %error] "not acquired";

    /// A holder gave its hold back.
    pub(super) fn released(recipe: &str, key: &str, token: Token, held: impl Debug)
        = DEBUG "latchwork.released" [recipe, key, %token, ?held] "released";

    /// A hold is lost.
    pub(super) fn hold_lost(recipe: &str, key: &str, token: Token, reason: LostReason)
        = WARN "latchwork.hold.lost" [recipe, key, %token, %reason] "a hold was lost before it was given back";

    /// A hold is lost by its own client's close.
    pub(super) fn hold_closed(recipe: &str, key: &str, token: Token, reason: LostReason)
        = DEBUG "latchwork.hold.closed" [recipe, key, %token, %reason] "a hold was lost by a close";

    /// A release has no answer yet.
    pub(crate) fn release_unconfirmed(key: &str, token: Token, error: &Error)
        = DEBUG "latchwork.release.unconfirmed" [key, %token, %error] "a release was not confirmed at once";

    /// The program ends by an error, and its coordinator is closed behind it.
    pub fn not_given_back(error: &Error)
        = WARN "latchwork.not_given_back" [%error] "not everything was given back behind work that failed";

    /// A look that nothing asked for has found a change.
    pub(super) fn recheck_found(backend: &str, what: &str)
        = DEBUG "latchwork.recheck.found" [backend, what] "a re-check found what no event told";

    /// A client has a new place in the registry.
    pub(crate) fn registered_anew(backend: &str, reason: LostReason)
        = DEBUG "latchwork.registry.anew" [backend, %reason] "this client is not registered any more; it registers anew";

    /// The first client of a namespace has written the layout.
    pub(crate) fn layout_stamped(backend: &str, layout: u32)
        = DEBUG "latchwork.layout.stamped" [backend, layout] "the namespace has its layout";

    /// An operator has raised the layout.
    pub(crate) fn layout_raised(backend: &str, layout: u32)
        = INFO "latchwork.layout.raised" [backend, layout] "the layout was raised";

    /// The layout of the namespace is too new for this client.
    pub(crate) fn layout_ended(backend: &str, error: &Error)
        = ERROR "latchwork.layout.ended" [backend, %error] "the layout was raised while this client was away: it ends";

    /// The namespace has moved away from this client.
    pub(crate) fn move_ended(backend: &str, error: &Error)
        = ERROR "latchwork.move.ended" [backend, %error] "the namespace was moved while this client was away: it ends";

    /// An operator has retired the namespace. `to` is the URL that clients are sent to.
    pub(crate) fn retired(backend: &str, namespace: &str, to: &str)
        = INFO "latchwork.namespace.retired" [backend, namespace, to] "the namespace is retired";

    /// An operator has taken a namespace into use again.
    pub(crate) fn reopened(backend: &str, namespace: &str)
        = INFO "latchwork.namespace.reopened" [backend, namespace] "the namespace is in use again";

    /// A participant of a move has brought its holds to a phase, and has said so.
    pub(crate) fn phase_reached(phase: MovePhase, epoch: u16, took: impl Debug)
        = INFO "latchwork.move.reached" [%phase, epoch, ?took] "this client has brought its holds to a phase of its move";

    /// The server shows an older stage of a move than it did before.
    /// `seen` and `now` are versions of its cell.
    pub(crate) fn stage_went_back(seen: u64, now: Option<u64>)
        = WARN "latchwork.move.went_back" [seen, now]
        "the old side shows an earlier stage of the move than before: it has lost data";

    /// A participant is no member of its move any more.
    pub(crate) fn no_member(error: &Error)
        = WARN "latchwork.move.away" [%error]
        "this client is no member of its move any more: what it held is lost, and it acquires nothing until it is back";

    /// A hold of a participant has ended with its lease on a side of the move, `old` or `new`.
    pub(crate) fn move_lost(key: &str, token: Token, side: &str, backend: &str, reason: LostReason)
        = DEBUG "latchwork.move.lost" [key, %token, side, backend, %reason]
        "a hold ended with its lease on this side of the move";

    /// An operator has taken a move to its next phase, forward or back.
    pub(crate) fn move_phase(name: &str, phase: MovePhase, epoch: u16)
        = INFO "latchwork.move.phase" [name, %phase, epoch] "the move is in this phase now";

    /// The next step of a move waits for so many members.
    pub(crate) fn move_waits(name: &str, phase: MovePhase, members: usize)
        = INFO "latchwork.move.waits" [name, %phase, members]
        "the move waits: members have not acknowledged this phase yet";

    /// An operator has written the marker of a side again, which the server had lost in mid-move.
    pub(crate) fn move_repaired(name: &str, side: Side)
        = WARN "latchwork.move.repaired" [name, ?side]
        "the marker of the move had been lost on this side, and stands again: plain clients may have come in";

    /// An operator has copied the values to a side, where they are used from now on.
    pub(crate) fn values_moved(name: &str, to: &str, values: usize)
        = INFO "latchwork.move.values" [name, to, values] "the values have moved: they are used on this side now";

    /// An operator has given a move up.
    pub(crate) fn move_given_up(name: &str)
        = INFO "latchwork.move.given_up" [name] "the move was given up: both namespaces are open";

    /// An operator has ended a move that was done. `to` is the URL that clients are sent to.
    pub(crate) fn move_finished(name: &str, to: &str)
        = INFO "latchwork.move.finished" [name, to] "the move is finished: nobody connects to the old side any more";

    /// The server is another one than before, and says so by its identity: holds may be forgotten.
    pub fn replaced(backend: &str, host: &str)
        = INFO "latchwork.server.replaced" [backend, host]
        "the server is another one, or was restarted: it may have forgotten what was held";

    /// The server has surely forgotten what it knew. `seen` and `now` are its counters.
    pub fn forgot(backend: &str, hosts: &str, seen: u64, now: Option<u64>)
        = WARN "latchwork.server.forgot" [backend, hosts, seen, now]
        "the server has forgotten what it knew: it was started without its data, or set back to an earlier state";

    /// A server of a cluster is down while a client connects, which the others let in.
    pub fn shard_down(backend: &str, host: &str, error: &Error)
        = WARN "latchwork.server.down" [backend, host, %error] "a server of the cluster is down";

    /// Renewed certificates are no good: the connections go on with the last ones.
    pub fn certificates_refused(error: &Error)
        = WARN "latchwork.tls.refused" [%error] "the renewed certificates cannot be used: the last ones are";

    /// This machine gives no local port, or takes no connection, for the relay of secured connections.
    pub fn relay_failed(backend: &str, error: &dyn Display)
        = WARN "latchwork.tls.relay" [backend, %error] "the local relay of secured connections does not work";

    /// The server's wall clock was set.
    pub fn clock_set(backend: &str, step_ms: i64)
        = WARN "latchwork.server.clock_set" [backend, step_ms]
        "the server's clock was set: leases may have expired early, and their holders learn it late";

    /// A message to another client was refused.
    pub fn publish_refused(backend: &str)
        = WARN "latchwork.server.publish_refused" [backend]
        "the server refused to publish to another client: hand-offs and watches wait for the re-check (see its ACL)";

    /// Somebody else writes where only this library should. `at` is the queue or the node.
    pub fn intruder(backend: &str, at: &str)
        = WARN "latchwork.intruder" [backend, at]
        "a hold that was not its turn is given up: another program writes into this namespace";

    /// The server is not set up as it should be. `at` says where, `what` says what to do.
    pub fn advice(backend: &str, at: &str, what: &dyn Display)
        = WARN "latchwork.server.advice" [backend, at, %what] "the server should be set up otherwise";
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
