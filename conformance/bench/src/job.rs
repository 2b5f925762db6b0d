use std::fmt;

use crate::contest::{Contest, Play};
use crate::hearing::Event;
use crate::line::Line;
use crate::plan::{Measure, Plan};
use crate::recipe::Recipe;
use crate::target::Target;
use crate::throughput::TASKS;
use crate::{
    Result, barrier, counting, hearing, held, many, moving, quorum, reentry, throughput, uncontended,
};

const CONTENDERS: usize = 16;
/// More than the head of a queue on etcd.
const IMPATIENT: usize = 32;

/// The measured targets, and the plan.
#[derive(Debug)]
pub struct Bench {
    /// The targets.
    pub targets: Vec<Target>,
    /// The terms.
    pub plan: Plan,
}

/// One measurement of one recipe on one target.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The index of the target.
    pub target: usize,
    task: Task,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    Uncontended(Recipe),
    Throughput(Recipe),
    Contest(Contest),
    Reentry,
    Counter,
    Hearing(Event),
    Quorum(usize),
    Moving(Recipe, usize),
    Held(usize),
    Barrier(usize),
    Many(usize),
}

impl Bench {
    /// Returns the jobs of a round, except [`Job::held`].
    pub fn jobs(&self, measures: &[Measure], recipes: &[Recipe]) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (target, of) in self.targets.iter().enumerate() {
            for measure in measures {
                let tasks = self.tasks(*measure, recipes, of);
                jobs.extend(tasks.into_iter().map(|task| Job { target, task }));
            }
        }
        jobs
    }

    fn tasks(&self, measure: Measure, recipes: &[Recipe], target: &Target) -> Vec<Task> {
        let each = |of: fn(Recipe) -> Task| recipes.iter().copied().map(of).collect();
        let contest = |play, contenders| Task::Contest(Contest { play, contenders });
        match measure {
            Measure::Uncontended => each(Task::Uncontended),
            Measure::Throughput => each(Task::Throughput),
            Measure::Handoff => of_each(recipes, &self.plan.contenders, |recipe, contenders| {
                contest(Play::Handoff(recipe), contenders)
            }),
            Measure::Mixes => {
                [10, 2].map(|writes| contest(Play::Mix { one_write_in: writes }, CONTENDERS)).into()
            }
            Measure::Permits => vec![contest(Play::Permits, CONTENDERS)],
            Measure::GiveUps => of_each(recipes, &self.plan.give_ups, |recipe, percent| {
                contest(Play::GiveUps { recipe, percent }, IMPATIENT)
            }),
            Measure::Reentry => vec![Task::Reentry],
            Measure::Counter => vec![Task::Counter],
            Measure::Latch => vec![Task::Hearing(Event::Opened)],
            Measure::Value => vec![Task::Hearing(Event::Written)],
            Measure::Election => {
                let mutex = self.plan.raw.then_some(Play::Handoff(Recipe::Mutex));
                [Play::Election].into_iter().chain(mutex).map(|play| contest(play, CONTENDERS)).collect()
            }
            Measure::Quorum => quorum::MEMBERS.map(Task::Quorum).into(),
            Measure::Moving => {
                let sides: Vec<_> = (0..target.others().len()).collect();
                of_each(recipes, &sides, Task::Moving)
            }
            Measure::Held => self.plan.held.iter().copied().map(Task::Held).collect(),
            Measure::Barrier => self.plan.held.iter().copied().map(Task::Barrier).collect(),
            Measure::Many => self.plan.held.iter().copied().map(Task::Many).collect(),
        }
    }

    /// Plays a job, and returns its lines. A failure is a line too.
    ///
    /// # Cancel safety
    /// A cancelled call leaves only data that ends with the leases of its clients.
    pub async fn play(&self, job: &Job) -> Vec<Line> {
        let (target, plan) = (&self.targets[job.target], &self.plan);
        let lines: Result<Vec<Line>> = match job.task {
            Task::Uncontended(recipe) => {
                uncontended::measure(target, recipe, recipe == Recipe::Mutex, plan).await
            }
            Task::Throughput(recipe) => throughput::measure(target, recipe, TASKS, plan).await,
            Task::Contest(contest) => contest.measure(target, plan).await,
            Task::Reentry => reentry::measure(target, plan).await,
            Task::Counter => counting::measure(target, plan).await,
            Task::Hearing(event) => hearing::measure(target, event, plan).await,
            Task::Quorum(members) => quorum::measure(target, members, plan).await,
            Task::Moving(recipe, side) => moving::measure(target, &target.others()[side], recipe, plan).await,
            Task::Held(count) => held::measure(target, count, plan).await,
            Task::Barrier(count) => barrier::measure(target, count, plan).await,
            Task::Many(count) => many::measure(target, count, plan).await,
        };
        lines.unwrap_or_else(|error| vec![self.failed(job, &error.to_string())])
    }

    /// Returns the line of a failed job.
    pub fn failed(&self, job: &Job, why: &str) -> Line {
        let line = Line::new(self.targets[job.target].name(), "latchwork", &job.to_string(), "", "");
        Line { error: Some(why.to_owned()), ..line }
    }
}

fn of_each<T: Copy>(recipes: &[Recipe], each: &[T], task: impl Fn(Recipe, T) -> Task) -> Vec<Task> {
    recipes.iter().flat_map(|recipe| each.iter().map(|one| task(*recipe, *one))).collect()
}

impl Job {
    /// Returns the measure and the number of locks or members of a job with thousands of them. It takes too
    /// long for many rounds, and needs a separate process, so that other measurements do not count.
    pub fn held(&self) -> Option<(Measure, usize)> {
        match self.task {
            Task::Held(count) => Some((Measure::Held, count)),
            Task::Barrier(count) => Some((Measure::Barrier, count)),
            Task::Many(count) => Some((Measure::Many, count)),
            _ => None,
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            Task::Uncontended(recipe) => write!(f, "M1 {recipe}"),
            Task::Throughput(recipe) => write!(f, "M2 {recipe}"),
            Task::Contest(contest) => write!(f, "{contest}"),
            Task::Reentry => f.write_str("REENTRY"),
            Task::Counter => f.write_str("COUNTER"),
            Task::Hearing(event) => f.write_str(event.measure()),
            Task::Quorum(members) => write!(f, "QUORUM of {members}"),
            Task::Moving(recipe, side) => write!(f, "MOVE {recipe}, pair {}", side + 1),
            Task::Held(count) => write!(f, "M5 {count} held"),
            Task::Barrier(count) => write!(f, "BARRIER {count} members"),
            Task::Many(count) => write!(f, "MANY {count} locks"),
        }
    }
}
