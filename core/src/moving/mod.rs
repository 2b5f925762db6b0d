//! A client of two coordinators, between which locks and values move.
//!
//! *Protocol.* `docs/protocol/moving.md` in the repository has it, with the argument; what is decided is
//! in [`decide::moving`](crate::decide::moving), which its models drive.

#[cfg_attr(not(test), expect(dead_code, reason = "no client works on both sides yet"))]
pub(crate) mod values;
