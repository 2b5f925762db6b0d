//! A client of two coordinators, between which locks move while they are held.
//!
//! *Protocol.* `docs/protocol/moving.md` in the repository has it, with the argument; what is decided is
//! in [`decide::moving`](crate::decide::moving), which its models drive.
//!
//! * The *stage* (the phase, and the epoch of the tokens) stands in a cell on the old side.
//! * A participant is a member on the old side: a node in the queue of the move's members. Its data say
//!   which version of the stage it has acknowledged.

mod member;
pub(crate) mod operator;
mod place;
mod staged;
