//! The roles of child processes, and the entry point of a program that may be a child.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_core::Connector;

use crate::child::{Counting, EndsEarly, Given, Hold, Role, Soak, play};
use crate::moves::{Operates, Traffic};

/// Acts as a child if the suite started this process as a child. Otherwise returns `None`.
pub fn contender_main(connectors: &[Arc<dyn Connector>]) -> Option<ExitCode> {
    let of_suite =
        [play::<Hold>, play::<Soak>, play::<EndsEarly>, play::<Counting>, play::<Traffic>, play::<Operates>];
    let given = Given::from_environment()?;
    let ended = of_suite.iter().find_map(|play| play(&given, connectors));
    Some(ended.unwrap_or_else(|| panic!("the suite has no role {:?}", given.role)))
}

/// Acts as a child and ends the process, if a test of the program started this process as a child. Call it in a test with the
/// name `contender` at the top level of a program of the standard test harness.
pub fn contender_test(connectors: &[Arc<dyn Connector>]) {
    if let Some(code) = contender_main(connectors) {
        end(code);
    }
}

/// Does the same as [`contender_test`] for a role of the program itself. Call it first.
pub fn contender_test_in<R: Role>(connectors: &[Arc<dyn Connector>]) {
    if let Some(code) = Given::from_environment().and_then(|given| play::<R>(&given, connectors)) {
        end(code);
    }
}

/// Ends the process before the test harness prints a result after the events.
fn end(code: ExitCode) -> ! {
    std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 })
}
