use std::process::ExitCode;
use std::sync::Arc;

use latchwork_core::Connector;

use crate::child::{Counting, EndsEarly, Given, Hold, Role, Soak, play};
use crate::moves::{Operates, Traffic};

/// Acts as a child if the suite started this process.
pub fn contender_main(connectors: &[Arc<dyn Connector>]) -> Option<ExitCode> {
    let of_suite =
        [play::<Hold>, play::<Soak>, play::<EndsEarly>, play::<Counting>, play::<Traffic>, play::<Operates>];
    let given = Given::from_environment()?;
    let ended = of_suite.iter().find_map(|play| play(&given, connectors));
    Some(ended.unwrap_or_else(|| panic!("the suite has no role {:?}", given.role)))
}

/// Acts as a child, and ends the process. Call it in a top-level test `contender` of the standard test harness.
pub fn contender_test(connectors: &[Arc<dyn Connector>]) {
    if let Some(code) = contender_main(connectors) {
        end(code);
    }
}

/// Does the same for a role of the program. Call it first.
pub fn contender_test_in<R: Role>(connectors: &[Arc<dyn Connector>]) {
    if let Some(code) = Given::from_environment().and_then(|given| play::<R>(&given, connectors)) {
        end(code);
    }
}

fn end(code: ExitCode) -> ! {
    std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 })
}
