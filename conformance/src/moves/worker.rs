use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::grant::Grant;
use super::heard::{Begun, Heard};
use super::keys::{KEYS, OWN};
use super::traffic::TrafficEvent;
use crate::child::{Child, Events, Process};
use crate::failover::now;

pub(super) type Latest = [u64; KEYS.len()];

pub(super) struct Worker {
    pub(super) process: Process,
    hears: JoinHandle<Heard>,
    own: watch::Receiver<u64>,
    stops: Vec<(u64, u64)>,
}

impl Worker {
    pub(super) async fn of(
        mut child: Child<TrafficEvent>,
        latest: watch::Sender<Latest>,
        within: Duration,
    ) -> Self {
        assert_eq!(child.next_within(within).await, TrafficEvent::Begun);
        let (granted, own) = watch::channel(0);
        let Child { process, events } = child;
        Self { process, hears: tokio::spawn(hear(events, latest, granted)), own, stops: Vec::new() }
    }

    pub(super) async fn goes_on(&self, within: Duration) -> Result<(), String> {
        let (since, mut own) = (now(), self.own.clone());
        let granted = timeout(within, own.wait_for(|granted| *granted > since)).await;
        let granted = granted.map_err(|_| format!("a process is granted nothing within {within:?}"))?;
        granted.map(drop).map_err(|_| "a process has ended early".to_owned())
    }

    pub(super) async fn cont(&mut self, stopped: u64, within: Duration) -> Result<(), String> {
        self.process.signal(Signal::CONT);
        let goes_on = self.goes_on(within).await;
        self.stops.push((stopped, now()));
        goes_on
    }

    /// Leaves out own acquisitions during a stop, which no change of phase delayed.
    pub(super) async fn heard(self) -> Heard {
        let mut heard = self.hears.await.expect("no panic");
        heard.grants.retain(|grant| {
            let apart = |(from, to): &(u64, u64)| grant.held.from < *from || *to < grant.asked;
            grant.held.key != OWN || self.stops.iter().all(apart)
        });
        heard
    }
}

async fn hear(
    mut events: Events<TrafficEvent>,
    latest: watch::Sender<Latest>,
    own: watch::Sender<u64>,
) -> Heard {
    let (mut heard, mut begun) = (Heard::default(), Begun::default());
    while let Some(event) = events.next().await {
        let granted = heard.take(event, &mut begun).unwrap_or_else(|why| panic!("{why}"));
        if let Some(Grant { held, .. }) = granted {
            if held.key == OWN {
                own.send_replace(held.from);
            } else {
                latest.send_modify(|latest| latest[held.key] = held.from.max(latest[held.key]));
            }
        }
    }
    heard.ends(begun);
    heard
}
