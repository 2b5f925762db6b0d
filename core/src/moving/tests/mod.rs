//! Moves between two memory stores, under paused time.

mod closing;
mod delays;
mod driver;
mod guards;
mod holds;
mod known;
mod listing;
mod patience;
mod requests;
pub(super) mod traffic;
