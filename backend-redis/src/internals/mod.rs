//! Tests of what the crate does not export: the scripts, against their model in core; and
//! everything that reads what a server or another client sends, against any bytes.

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
