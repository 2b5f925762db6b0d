//! Models of the protocols, explored over core's own decisions.

mod explore;
mod redis;

use std::time::Duration;

use latchwork_core::Moment;

/// The unit of time: the least margin (200 ms), so that core's own arithmetic works in whole ticks.
const TICK: Duration = Duration::from_millis(200);

fn moment(ticks: u8) -> Moment {
    Moment::from_nanos(0) + ttl_of(ticks)
}

fn ttl_of(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}
