//! Broken backends: each breaks one promise, and exists to be caught by one case of the suite. A
//! case that lets its broken backend pass proves nothing on a real one.

mod cells;
mod clients;
mod counts;
mod elections;
mod endings;
mod foreign;
mod key;
mod lease;
mod leaves;
mod mutex;
mod node;
mod observed;
mod order;
mod recipes;
mod seen;
mod states;
mod terms;
mod waits;
mod wrapper;

use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::MemoryTestbed;

pub(crate) use foreign::PlantTestbed;
pub(crate) use wrapper::Defect;

/// A broken backend, and the case that exists for it.
pub(crate) struct Control {
    /// What is broken, as the test's name.
    pub(crate) name: &'static str,
    /// The title of the case that must fail: with a plain mutex, unless it names an adapter.
    pub(crate) case: &'static str,
    /// A case that has nothing to do with it, and must pass: the defect is no wider than it says.
    pub(crate) beside: &'static str,
    /// The memory backend, broken.
    pub(crate) testbed: fn(&'static str) -> Box<dyn Testbed>,
}

/// Every broken backend.
pub(crate) fn controls() -> Vec<Control> {
    [
        key::CONTROLS,
        lease::CONTROLS,
        node::CONTROLS,
        mutex::CONTROLS,
        recipes::CONTROLS,
        cells::CONTROLS,
        counts::CONTROLS,
        elections::CONTROLS,
        observed::CONTROLS,
        clients::CONTROLS,
        terms::CONTROLS,
        seen::CONTROLS,
    ]
    .into_iter()
    .flatten()
    .map(Control::copy)
    .collect()
}

impl Control {
    fn copy(&self) -> Self {
        Self { ..*self }
    }
}

/// The memory backend with a defect, which all clients of the testbed share.
fn on_memory(name: &'static str, defect: impl Defect) -> Box<dyn Testbed> {
    Box::new(MemoryTestbed::broken(name, wrapper::wrap(defect)))
}
