//! Tests of what the crate does not export: the scripts, against their model in core; and
//! everything that reads what a server or another client sends, against any bytes.
//!
//! The program compiles the files that it tests into itself, so that the crate exports nothing for
//! it.

#![allow(dead_code, unused_imports, reason = "the included files have more than these tests use")]

#[path = "../../src/watch/attempt.rs"]
mod attempt;
#[path = "../../src/driver/command.rs"]
mod command;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/watch/inbox.rs"]
mod inbox;
#[path = "../../src/driver/info.rs"]
mod info;
#[path = "../../src/layout.rs"]
mod layout;
#[path = "../../src/scripts/mod.rs"]
mod scripts;

mod agree;
mod counts;
mod deleted;
mod dice;
mod fixture;
mod forms;
mod fuzz;
mod history;
mod limits;
mod operations;
mod vandal;
