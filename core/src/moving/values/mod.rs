//! Values that move: their use by a participant, and their copy by an operator.
//!
//! *A participant.* [`MovingCells`](cells::MovingCells) uses values on their side. Each request [asks by the
//! stage](usage::Usage::begin) that the participant knows then, and waits during a copy.
//! [`Usage`](usage::Usage) decides when a stage may be acknowledged.
//!
//! *An operator.* [`carry`](carry::carry) copies and compares in [passes](carry), and takes the step.
//! [`Copying`](mirror::Copying) is one copy.
//!
//! `docs/protocol/moving.md` has the argument, `core/tests/models/moving/values` the model.

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

/// An address in another namespace. Exact addresses do not move: other programs use them, and read no stage.
fn moved(address: &Address, namespace: &Namespace) -> Result<Address> {
    if !KINDS.contains(&address.kind()) {
        return Err(Error::unsupported("cell", "cells of this kind do not move between coordinators"));
    }
    if address.is_exact() {
        return Err(Error::invalid("key", "a value at an exact address does not move"));
    }
    Ok(address.moved_to(namespace))
}
