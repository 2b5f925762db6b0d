//! The cases, by contract.

pub mod key;
pub mod lease;
pub mod mutex;
pub mod node;
pub mod process;

use crate::case::Case;

/// Every case of the suite, in a fixed order.
pub fn all() -> Vec<Case> {
    [key::CASES, lease::CASES, node::CASES, mutex::CASES, process::CASES].concat()
}
