use std::io::IsTerminal;
use std::time::Instant;

use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use latchwork_bench::{Line, Target, Trial};

use super::plan::{Plan, QUICK};

#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) coordinator: usize,
    pub(super) trial: Trial,
    pub(super) round: usize,
    pub(super) outcome: Result<Vec<Line>, String>,
}

/// A late quick run leaves out the rest of its later rounds.
pub(super) async fn play(targets: &[Target], plan: &Plan, since: Instant) -> Vec<Played> {
    let steps: Vec<_> = plan
        .steps()
        .into_iter()
        .map(|(round, trial)| (round, trial, Plan::fitting(trial, targets)))
        .filter(|(_, _, places)| !places.is_empty())
        .collect();
    let progress = Progress::new(steps.iter().map(|(_, _, places)| places.len()).sum());
    let mut played = Vec::new();
    for (number, (round, trial, places)) in steps.iter().enumerate() {
        let first = |trial: &Trial| played.iter().all(|one: &Played| one.trial != *trial);
        let to_come = steps[number + 1..].iter().filter(|(_, trial, _)| first(trial));
        let rest: std::time::Duration =
            to_come.map(|(_, trial, places)| plan.takes(*trial, places.len())).sum();
        if plan.quick && !first(trial) && since.elapsed() + plan.takes(*trial, places.len()) + rest > QUICK {
            progress.bar.inc(places.len() as u64);
            continue;
        }
        // No coordinator always follows the same one.
        let mut places = places.clone();
        let begins = round % places.len();
        places.rotate_left(begins);
        let one = async |place: usize| Played {
            coordinator: place,
            trial: *trial,
            round: *round,
            outcome: trial.play(&targets[place], &plan.terms).await.map_err(|error| error.to_string()),
        };
        if trial.waits() {
            progress.show("all", *trial, *round, plan);
            played.extend(join_all(places.iter().map(|place| one(*place))).await);
            progress.bar.inc(places.len() as u64);
            continue;
        }
        for place in places {
            progress.show(targets[place].name(), *trial, *round, plan);
            played.push(one(place).await);
            progress.bar.inc(1);
        }
    }
    progress.bar.finish_and_clear();
    played
}

struct Progress {
    bar: ProgressBar,
    terminal: bool,
}

impl Progress {
    fn new(trials: usize) -> Self {
        let bar = ProgressBar::new(trials as u64);
        let style = "{wide_bar} {pos}/{len}  {elapsed} of {duration}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar, terminal: std::io::stderr().is_terminal() }
    }

    fn show(&self, name: &str, trial: Trial, round: usize, plan: &Plan) {
        let text = match plan.rounds_of(trial) {
            1 => format!("{name}: {trial}"),
            rounds => format!("{name}: {trial}, round {} of {rounds}", round + 1),
        };
        if !self.terminal {
            let _ = std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("{text}\n"));
        }
        self.bar.set_message(text);
    }
}
