use std::time::Duration;

use tokio::time::timeout;

use crate::coordinators::Stage;
use crate::crew::Crew;
use crate::event::{WORKERS, What};
use crate::paint::Paint;
use crate::tally::Tally;
use crate::timeline::Timeline;
use crate::worker::{FATAL_TURN, VICTIM};

/// Longer than the longest lease that a server with usual settings grants, plus its bound.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) async fn play(stage: &Stage, paint: Paint) -> Result<Tally, String> {
    let played = perform(stage, paint).await;
    println!();
    played
}

async fn perform(stage: &Stage, paint: Paint) -> Result<Tally, String> {
    let mut crew = if stage.has_processes() { Crew::processes(stage)? } else { Crew::tasks(stage).await? };
    let workers = if stage.has_processes() { "processes" } else { "tasks, each with its own client" };
    let mut timeline = Timeline::open(
        &format!("{} ({})", stage.backend(), stage.whereabouts()),
        &format!("{} {workers}", WORKERS.len()),
        paint,
    );
    let mut tally = Tally::default();
    let mut ready = 0;
    loop {
        let Ok(next) = timeout(SILENCE, crew.next()).await else {
            return Err(format!("nothing happened for {} s", SILENCE.as_secs()));
        };
        let Some(event) = next else { break };
        timeline.show(&event);
        tally.note(&event);
        match event.what {
            What::Ready { .. } => {
                ready += 1;
                if ready == WORKERS.len() {
                    crew.start().await?;
                }
            }
            What::Holds { turn, .. } if (event.worker, turn) == (VICTIM, FATAL_TURN) => {
                let killed = crew.kill(VICTIM).await?;
                timeline.show(&killed);
                tally.note(&killed);
            }
            // The others would wait for the start for ever.
            What::Fails { error } if ready < WORKERS.len() => return Err(error),
            _ => {}
        }
    }
    for complaint in crew.end(VICTIM).await {
        tally.complain(complaint);
    }
    Ok(tally)
}
