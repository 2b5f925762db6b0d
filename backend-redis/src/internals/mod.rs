//! Tests of code that the crate does not export.

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
