//! Tests that take long.

mod chaos;
mod default_clocks;
