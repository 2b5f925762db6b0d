//! Nothing is forgotten: what belongs together in several files is in all of them.

mod backends;
mod cases;
mod clock;
mod futures;
mod options;
pub(crate) mod places;
mod recipes;
