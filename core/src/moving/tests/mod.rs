//! Moves between two memory stores, under paused time.

mod delays;
mod driver;
mod holds;
mod requests;
mod traffic;
