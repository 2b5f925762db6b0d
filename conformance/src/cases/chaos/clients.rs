use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use latchwork_core::Kind;
use latchwork_core::backend::EntryPage;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::{Chaos, KEY, KEYS, LOOK, TASKS, name, newcomer, pause};
use crate::child::SoakKind;
use crate::context::Context;
use crate::testbed::{Client, Link};
use crate::waits::soon;

impl Chaos {
    /// Clients follow each other. `well` has no faults.
    pub(super) async fn live_and_die(
        self: &Arc<Self>,
        context: &Context,
        well: &Client,
        newborn: (Client, String),
        mut chance: StdRng,
        mut crashes: bool,
    ) -> Client {
        let mut newborn = Some(newborn);
        let longest = (self.ttl * 10).min((self.ends - self.began) * 2 / 3);
        loop {
            let (client, label) = match newborn.take() {
                Some(newborn) => newborn,
                None => newcomer(context, &mut chance).await,
            };
            let ends = self.ends.min(Instant::now() + chance.random_range(self.ttl..longest));
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let (chaos, coordinator) = (Arc::clone(self), client.coordinator.clone());
                let chance = StdRng::seed_from_u64(chance.random());
                tasks.spawn(async move { chaos.contend(&coordinator, chance, ends).await });
            }
            let faults = StdRng::seed_from_u64(chance.random());
            crashes |= chance.random_ratio(1, 2);
            self.disturb(&*client.link, faults, ends).await;
            if ends < self.ends && std::mem::take(&mut crashes) {
                client.link.cut();
                self.crashes.fetch_add(1, Ordering::AcqRel);
                tasks.abort_all();
                while let Some(ended) = tasks.join_next().await {
                    assert!(
                        ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()),
                        "a task panicked"
                    );
                }
                continue;
            }
            while let Some(ended) = tasks.join_next().await {
                ended.expect("no panic");
            }
            // Its live lease must not free nodes.
            soon("an idle client has no node in any queue", async {
                while !self.is_nowhere(context, well, &label).await {
                    sleep(LOOK).await;
                }
            })
            .await;
            if Instant::now() >= self.ends {
                return client;
            }
            // Requests in progress prevent the confirmation of the close.
            if let Err(error) = soon("the close", client.coordinator.close()).await {
                self.expected(&error);
            }
        }
    }

    async fn is_nowhere(&self, context: &Context, well: &Client, label: &str) -> bool {
        let kind = match self.kind {
            SoakKind::Exclusive => Kind::Mutex,
            SoakKind::ReadWrite => Kind::RwLock,
            SoakKind::Permits { .. } => Kind::Semaphore,
        };
        for key in 0..KEYS {
            let queue = context.queue_of(kind, &name(key));
            let listed = well.coordinator.backend().list(&queue, EntryPage::new(0, 1000)).await;
            if !listed.is_ok_and(|entries| entries.iter().all(|entry| entry.label != label)) {
                return false;
            }
        }
        true
    }

    async fn disturb(&self, link: &dyn Link, mut chance: StdRng, ends: Instant) {
        let (ttl, chance) = (self.ttl, &mut chance);
        while Instant::now() < ends {
            pause(chance, Duration::ZERO..ttl / 2).await;
            match chance.random_range(0..7) {
                0 => {
                    link.cut();
                    pause(chance, Duration::ZERO..Duration::from_millis(50)).await;
                }
                1 => {
                    link.cut();
                    pause(chance, ttl / 2..ttl * 2).await;
                }
                2 => {
                    link.delay(chance.random_range(Duration::ZERO..ttl / 2));
                    pause(chance, Duration::ZERO..ttl * 2).await;
                }
                3 => {
                    link.delay(chance.random_range(ttl..ttl * 2));
                    pause(chance, ttl / 2..ttl * 2).await;
                }
                // There may be no request, or another break of the connection.
                4 => {
                    let mut dropped = link.drop_reply(KEY);
                    let _ = timeout(ttl, dropped.caught()).await;
                }
                _ => {
                    let mut parked = link.park(KEY);
                    if let Ok(Ok(())) = timeout(ttl, parked.caught()).await {
                        pause(chance, Duration::ZERO..ttl * 2).await;
                        soon("the late request is delivered", parked.deliver()).await;
                    }
                }
            }
            link.heal();
        }
    }
}
