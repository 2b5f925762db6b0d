//! Tests of code that the crate does not export: the scripts, compared with their model in core,
//! and all readers of messages from servers and other clients, with arbitrary bytes.

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
