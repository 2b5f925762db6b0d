//! Values that move along: how a participant uses them, and how an operator takes them to the other side.
//!
//! *A participant.* [`MovingCells`](cells::MovingCells) reads and changes values on the side where they are used. Each request
//! [asks by the stage](usage::Usage::begin) that the participant knows when it sends, and waits while
//! values are copied. The same [`Usage`](usage::Usage) says when the stage may be acknowledged.
//!
//! *An operator.* [`carry`](carry::carry) copies and compares in [passes](carry), and takes the step.
//! [`Copying`](mirror::Copying) is one copy.
//!
//! `docs/protocol/moving.md` has the argument, and `core/tests/models/moving/values` the model.

pub(crate) mod carry;
pub(crate) mod cells;
mod limits;
pub(crate) mod mirror;
pub(crate) mod sided;
pub(crate) mod usage;
mod versions;
mod watch;

#[cfg(test)]
mod tests;

use crate::address::{Address, Kind, Namespace};
use crate::error::{Error, Result};

/// The kinds of values that move.
pub(crate) const KINDS: [Kind; 4] = [Kind::Value, Kind::Counter, Kind::Ids, Kind::Latch];

/// A key's address in a namespace.
///
/// # Errors
/// `InvalidArgument` naming `key` for an exact address: other programs use it, and read no stage.
/// `Unsupported` for a kind that does not move.
fn moved(address: &Address, namespace: &Namespace) -> Result<Address> {
    if !KINDS.contains(&address.kind()) {
        return Err(Error::unsupported("cell", "cells of this kind do not move between coordinators"));
    }
    if address.is_exact() {
        return Err(Error::invalid("key", "a value at an exact address does not move"));
    }
    Ok(address.moved_to(namespace))
}
