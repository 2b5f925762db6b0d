//! Moves between two memory stores, under paused time.

mod driver;
mod holds;
mod listing;
mod traffic;
