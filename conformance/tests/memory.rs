//! The suite against the memory backend, under tokio's paused clock.

use std::process::ExitCode;

use latchwork_conformance::beds::MemoryBed;
use latchwork_core::memory;

fn main() -> ExitCode {
    latchwork_conformance::main(vec![memory::connector()], |_| Ok(Box::new(MemoryBed::new())))
}
