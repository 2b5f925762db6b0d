//! Measures several coordinators, interleaved in one run, by [`Trial`](latchwork_bench::Trial)s.

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
