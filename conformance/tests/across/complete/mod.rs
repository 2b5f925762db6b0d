//! Checks that related entries are complete in all files that must contain them.

mod backends;
mod cases;
mod clock;
mod futures;
mod options;
pub(crate) mod places;
mod recipes;
