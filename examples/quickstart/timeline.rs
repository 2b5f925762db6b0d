//! One lane for each worker, one line for each change of holder.

use std::time::Duration;

use latchwork::Moment;

use super::event::{Event, WORKERS, What};
use super::paint::Paint;

#[derive(Clone, Copy, PartialEq)]
enum Lane {
    Away,
    Waits,
    Holds,
    Dead,
}

pub(crate) struct Timeline {
    paint: Paint,
    lanes: [Lane; WORKERS.len()],
    start: Option<Moment>,
    killed: Option<Moment>,
}

impl Timeline {
    pub(crate) fn open(title: &str, workers: &str, paint: Paint) -> Timeline {
        println!("{}{}", paint.bold(title), paint.dim(&format!(" · {workers}")));
        let names: String = WORKERS.map(|name| format!("{name:^5}")).concat();
        println!("{}", paint.dim(&format!("{:>9}  {names}  ██ holds · waits ✖ is dead", "seconds")));
        Timeline { paint, lanes: [Lane::Away; WORKERS.len()], start: None, killed: None }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        let name = event.name();
        match &event.what {
            What::Ready { .. } => {}
            What::Waits => {
                self.start.get_or_insert(event.moment());
                self.lanes[event.worker] = Lane::Waits;
            }
            What::Releases | What::Leaves => self.lanes[event.worker] = Lane::Away,
            What::Holds { token, waited_us, .. } => {
                self.lanes[event.worker] = Lane::Holds;
                let waited = Duration::from_micros(*waited_us);
                let line = format!("{name} holds, token {token}, waited {}", brief(waited));
                let recovered = match self.killed.take() {
                    Some(killed) => format!(", {} after the kill", brief(event.moment().since(killed))),
                    None => String::new(),
                };
                self.print(event, &(line + &self.paint.green(&recovered)));
            }
            What::Killed => {
                self.lanes[event.worker] = Lane::Dead;
                self.killed = Some(event.moment());
                self.print(event, &self.paint.red(&format!("{name} is killed while it holds")));
            }
            What::Fails { error } => {
                self.lanes[event.worker] = Lane::Away;
                self.print(event, &self.paint.red(&format!("{name} fails: {error}")));
            }
        }
    }

    fn print(&self, event: &Event, text: &str) {
        let passed = self.start.map_or(Duration::ZERO, |start| event.moment().since(start));
        let lanes: String = self.lanes.map(|lane| self.lane(lane)).concat();
        println!("{:>9.3}  {lanes}  {text}", passed.as_secs_f64());
    }

    fn lane(&self, lane: Lane) -> String {
        match lane {
            Lane::Away => "     ".to_owned(),
            Lane::Waits => self.paint.dim("  ·  "),
            Lane::Holds => self.paint.green(" ██  "),
            Lane::Dead => self.paint.red("  ✖  "),
        }
    }
}

pub(crate) fn brief(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.2} s", duration.as_secs_f64())
    }
}
