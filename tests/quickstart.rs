//! What the quickstart counts: its modules, since an example is built as a program or as tests, and the program is run too.
#![allow(dead_code, reason = "the show itself is not played here")]

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
