//! The suite against the memory backend, under tokio's paused clock.

use std::process::ExitCode;

use latchwork_conformance::testbeds::MemoryTestbed;
use latchwork_core::memory;

fn main() -> ExitCode {
    latchwork_conformance::main(vec![memory::connector()], |_| Ok(Box::new(MemoryTestbed::new())))
}
