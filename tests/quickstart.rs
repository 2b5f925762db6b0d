//! The tests of the quickstart's own modules. Cargo builds an example either as a program or as tests, and
//! the quickstart must also run as a program.
#![allow(dead_code, reason = "the quickstart itself does not run here")]

#[path = "../examples/quickstart/event.rs"]
mod event;
#[path = "../examples/quickstart/paint.rs"]
mod paint;
#[path = "../examples/quickstart/tally.rs"]
mod tally;
#[path = "../examples/quickstart/timeline.rs"]
mod timeline;
#[path = "../examples/quickstart/worker.rs"]
mod worker;
