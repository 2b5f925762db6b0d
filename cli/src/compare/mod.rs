//! Measures the same recipes on several coordinators, interleaved in one run, and reports which one fits
//! which need.
//!
//! ```text
//! order             the arguments; the run from end to end
//! sources           the coordinators: found, started, given; the question before a given one is used
//! plan, run         the trials and their times; running them in turns, with progress
//! figures, group, unit, column, report   from lines of the bench to figures, with spread and ratios: the JSON
//! guarantees        the promises of each coordinator, and the cases of the suite that check them
//! baseline          changes since a saved run that are larger than the noise
//! advice            the coordinators that fit each need, from figures and guarantees
//! table, page, charts   the report for a terminal, and as one HTML page
//! ```
//!
//! The measurements are [`Trial`](latchwork_bench::Trial)s of `latchwork-bench`.

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
