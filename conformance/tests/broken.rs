//! The suite is tested too: every broken backend fails the case that exists for it, and passes one
//! that does not.

#[path = "broken/mod.rs"]
mod broken;

use std::process::ExitCode;

use broken::{Control, PlantTestbed, controls};
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::{Case, Played, cases, play};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    // What panics here is meant to; its message is in the result.
    std::panic::set_hook(Box::new(|_| {}));
    let mut trials: Vec<_> =
        controls().into_iter().map(|control| trial(control.name, move || caught(&control))).collect();
    trials.push(trial("an_honest_backend_beside_plants_passes", || {
        played(play(leak(Box::new(PlantTestbed::honest())), &case("node_foreign_entries_do_no_harm")?))
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::test(format!("broken::{name}"), || run().map_err(Failed::from))
}

fn caught(control: &Control) -> Result<(), String> {
    let Control { name, case: exists_for_it, beside, testbed } = *control;
    match play(leak(testbed(name)), &case(exists_for_it)?) {
        Ok(_) => return Err(format!("{exists_for_it} does not see it")),
        // That would be said of anything.
        Err(message) if ["no fixture", "took longer"].iter().any(|start| message.starts_with(start)) => {
            return Err(format!("{exists_for_it} was not played to its end: {message}"));
        }
        Err(message) => println!("{name}: {exists_for_it} fails: {message}"),
    }
    played(play(leak(testbed(name)), &case(beside)?))
        .map_err(|message| format!("{beside} fails too, which has nothing to do with it: {message}"))
}

/// What is left out says nothing.
fn played(outcome: Result<Played, String>) -> Result<(), String> {
    match outcome? {
        Played::Whole => Ok(()),
        Played::LeftOut(why) => Err(format!("it was not played: {why}")),
    }
}

fn case(title: &str) -> Result<Case, String> {
    cases::all()
        .into_iter()
        .find(|case| case.title() == title)
        .ok_or_else(|| format!("there is no case {title}"))
}

/// A testbed lives as long as the run.
fn leak(testbed: Box<dyn Testbed>) -> &'static dyn Testbed {
    Box::leak(testbed)
}
