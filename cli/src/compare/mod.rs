//! The same recipes on several coordinators, interleaved in one run, and what that says to somebody who
//! decides between them.
//!
//! ```text
//! order             what is asked; the run from end to end
//! sources           which coordinators: found, started, given; asking before a given one is used
//! plan, run         which trials, for how long; playing them in turns, with progress
//! figures, group, unit, column, report   from lines of the bench to figures, with spread and ratios: the JSON
//! guarantees        what each promises, and the cases of the suite behind that
//! baseline          what has changed since a saved run, beyond the noise
//! advice            which for what, from figures and guarantees
//! table, page, charts   the report for a terminal, and as one HTML page
//! ```
//!
//! What is measured is in `latchwork-bench`, as [`Trial`](latchwork_bench::Trial)s.

mod advice;
mod baseline;
mod charts;
mod column;
mod figures;
mod group;
mod guarantees;
mod holder;
mod order;
mod page;
mod plan;
mod report;
mod run;
mod sources;
mod table;
mod unit;

pub(crate) use self::holder::HolderOrder;
pub(crate) use self::order::CompareOrder;
