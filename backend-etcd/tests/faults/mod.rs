//! Tests that take long: a server that fails at random, and default clocks.

mod chaos;
mod default_clocks;
