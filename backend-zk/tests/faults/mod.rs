//! Soaks of several processes, and servers with default clocks.

mod curator_soak;
mod default_clocks;
