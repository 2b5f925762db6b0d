use std::ffi::OsString;
use std::time::Duration;

use clap::ValueEnum;
use latchwork_bench::{Target, Terms, Trial};

use crate::failure::Failure;

/// Trials of later rounds than the first that would exceed this time are left out.
pub(super) const QUICK: Duration = Duration::from_secs(55);
/// The servers start in parallel.
const START: Duration = Duration::from_secs(4);

const TASKS: [usize; 3] = [1, 8, 64];
const CONTENDERS: [usize; 3] = [2, 16, 128];
/// Milliseconds.
const LINKS: [u64; 3] = [1, 10, 50];
const HELD: usize = 1000;

/// A family of trials, for `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Family {
    /// Acquire and release of a free lock
    Alone,
    /// One lock, passed from contender to contender
    HandOff,
    /// Many tasks, each with its own lock
    Throughput,
    /// Through a slow link
    Link,
    /// Bytes and wake-ups
    Wire,
    /// A holder is killed
    Crash,
    /// The server is killed and started again
    Restart,
    /// 1,000 held locks
    Held,
}

impl Family {
    fn trials(self, quick: bool) -> Vec<Trial> {
        match self {
            Family::Alone => vec![Trial::Alone],
            Family::HandOff => CONTENDERS.map(Trial::Contest).into(),
            Family::Throughput if quick => [TASKS[0], TASKS[2]].map(Trial::Tasks).into(),
            Family::Throughput => TASKS.map(Trial::Tasks).into(),
            Family::Link => LINKS.map(|ms| Trial::Link(Duration::from_millis(ms))).into(),
            Family::Wire => vec![Trial::Wire],
            Family::Crash => vec![Trial::Crash],
            Family::Restart => vec![Trial::Restart],
            Family::Held => vec![Trial::Held(HELD)],
        }
    }

    fn in_each_round(self, quick: bool) -> bool {
        match self {
            Family::Alone | Family::HandOff | Family::Throughput => true,
            Family::Link => !quick,
            Family::Wire | Family::Crash | Family::Restart | Family::Held => false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) quick: bool,
    pub(super) rounds: usize,
    pub(super) terms: Terms,
    each: Vec<Trial>,
    seldom: Vec<Trial>,
    few: usize,
}

impl Plan {
    pub(super) fn new(quick: bool, rounds: Option<usize>, only: &[Family]) -> Result<Self, Failure> {
        let ms = Duration::from_millis;
        let (time, warm, held_time) = if quick { (200, 60, 500) } else { (500, 200, 2000) };
        let this = std::env::current_exe()
            .map_err(|error| Failure::machine("the file of this program cannot be found", error))?;
        let holder = vec![this.into_os_string(), OsString::from("internal-holder")];
        let wanted = |family: &Family| only.is_empty() || only.contains(family);
        let families = Family::value_variants().iter().filter(|family| wanted(family));
        let (each, seldom): (Vec<Family>, Vec<Family>) =
            families.copied().partition(|family| family.in_each_round(quick));
        let trials =
            |families: Vec<Family>| families.into_iter().flat_map(|family| family.trials(quick)).collect();
        let rounds = rounds.unwrap_or(if quick { 2 } else { 7 });
        Ok(Self {
            quick,
            rounds,
            terms: Terms { time: ms(time), warm: ms(warm), held_time: ms(held_time), holder },
            each: trials(each),
            seldom: trials(seldom),
            few: if quick { 1 } else { rounds.min(3) },
        })
    }

    /// The restart comes last, because it breaks the connections. The other seldom trials come after the
    /// first round, so that a quick run has them.
    pub(super) fn steps(&self) -> Vec<(usize, Trial)> {
        let round = |number: usize| self.each.iter().map(move |trial| (number, *trial));
        let (last, seldom): (Vec<Trial>, Vec<Trial>) =
            self.seldom.iter().partition(|trial| **trial == Trial::Restart);
        let few = |trials: Vec<Trial>| {
            (0..self.few).flat_map(move |number| trials.clone().into_iter().map(move |trial| (number, trial)))
        };
        round(0).chain(few(seldom)).chain((1..self.rounds).flat_map(round)).chain(few(last)).collect()
    }

    pub(super) fn rounds_of(&self, trial: Trial) -> usize {
        if self.each.contains(&trial) { self.rounds } else { self.few }
    }

    /// Trials that only wait run in parallel.
    pub(super) fn takes(&self, trial: Trial, targets: usize) -> Duration {
        let once = trial.takes(&self.terms);
        if trial.waits() { once } else { once * u32::try_from(targets).unwrap_or(1) }
    }

    pub(super) fn budget(&self, servers: usize, memory: usize) -> Duration {
        let fits = |trial: Trial| match trial {
            Trial::Link(_) | Trial::Wire | Trial::Held(_) | Trial::Restart => servers,
            _ => servers + memory,
        };
        START + self.steps().into_iter().map(|(_, trial)| self.takes(trial, fits(trial))).sum::<Duration>()
    }

    pub(super) fn fitting(trial: Trial, targets: &[Target]) -> Vec<usize> {
        (0..targets.len()).filter(|place| trial.unfit(&targets[*place]).is_none()).collect()
    }

    pub(super) fn trials(&self) -> impl Iterator<Item = Trial> {
        self.each.iter().chain(&self.seldom).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_on_memory_and_three_servers_is_planned_for_less_than_a_minute() {
        let plan = Plan::new(true, None, &[]).unwrap();
        let budget = plan.budget(3, 1);
        assert!(budget < Duration::from_secs(60), "{budget:?}");
        let whole = Plan::new(false, None, &[]).unwrap().budget(3, 1);
        assert!(whole > budget * 2 && whole < Duration::from_secs(600), "{whole:?}");
    }

    #[test]
    fn a_server_is_restarted_after_everything_else_and_all_is_played_in_a_quick_runs_first_round() {
        for quick in [true, false] {
            let plan = Plan::new(quick, None, &[]).unwrap();
            let steps = plan.steps();
            let first = steps.iter().position(|(_, trial)| *trial == Trial::Restart).unwrap();
            assert!(steps[first..].iter().all(|(_, trial)| *trial == Trial::Restart), "{steps:?}");
            let second_round = steps.iter().position(|step| *step == (1, Trial::Alone)).unwrap();
            for trial in plan.trials().filter(|trial| *trial != Trial::Restart) {
                assert!(steps[..second_round].contains(&(0, trial)), "{trial}");
            }
        }
    }

    #[test]
    fn plan_contains_only_the_named_families() {
        let plan = Plan::new(true, Some(3), &[Family::Wire, Family::Alone]).unwrap();
        assert_eq!(plan.steps(), [(0, Trial::Alone), (0, Trial::Wire), (1, Trial::Alone), (2, Trial::Alone)]);
        assert_eq!([Trial::Alone, Trial::Wire].map(|trial| plan.rounds_of(trial)), [3, 1]);
    }
}
