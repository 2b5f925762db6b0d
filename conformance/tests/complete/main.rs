//! Nothing is forgotten: what belongs together in several files is in all of them.

// Here they are counted; they play in `broken.rs`.
#[allow(dead_code)]
#[path = "../broken/mod.rs"]
mod broken;

mod backends;
mod cases;
mod clock;
mod futures;
mod options;
mod places;
mod recipes;
