//! LAYOUT-RAISE over processes. Only `./test --long` has two builds; otherwise this one acts as the newer
//! one.

use latchwork_core::backend::LAYOUT;
use latchwork_core::{Config, ErrorKind};

use super::clients::raise;
use super::process::processes;
use super::soak::judged;
use crate::bounds::LONG_TTL;
use crate::case::cases;
use crate::child::{Child, Soak, SoakKind, command};
use crate::context::Context;
use crate::errors::fails;
use crate::hold_record::{HoldRecord, in_order_of_tokens, monotonic, none_overlap};
use crate::testbed::Client;
use crate::waits::soon;

const KEY: &str = "rolled";
const NEWER: u32 = LAYOUT + 1;

cases! {
    "LAYOUT-RAISE" =>
    /// a fleet of processes that contend for one lock is rolled to a newer build, back, and forward again, and its
    /// layout is raised, which is refused while an older process is connected: all continue at each step, holds never
    /// overlap, tokens rise from build to build, and no older process returns
    async fn layout_raise_in_a_rolling_upgrade(context) {
        let Some(config) = processes(context, LONG_TTL) else { return };
        let begin = async |layout| Member::start(context, &config, layout).await;
        let mut fleet = vec![begin(LAYOUT).await, begin(LAYOUT).await];
        all_go_on(&mut fleet).await;
        let operator = context.client_with(&config.clone().as_of_layout(NEWER).as_operator()).await;
        let mut records = Vec::new();
        for (newer, older) in [(NEWER, LAYOUT), (LAYOUT, NEWER), (NEWER, LAYOUT), (NEWER, LAYOUT)] {
            fleet.push(begin(newer).await);
            all_go_on(&mut fleet).await;
            refused(&operator).await;
            let place = fleet.iter().position(|member| member.layout == older).expect("one is there");
            records.extend(fleet.remove(place).end().await);
            all_go_on(&mut fleet).await;
        }
        assert_eq!(raise(&operator).await.expect("raised"), NEWER);
        all_go_on(&mut fleet).await;
        let mut back = begin(LAYOUT).await.process;
        assert!(soon("its end", back.events.next()).await.is_none(), "an older process has begun under the newer layout");
        assert!(!soon("its end", back.process.ended()).await.success(), "an older process has not failed");
        all_go_on(&mut fleet).await;
        for member in fleet {
            records.extend(member.end().await);
        }
        judged(in_order_of_tokens(&records));
        judged(none_overlap(&records, 1));
    }
}

async fn refused(operator: &Client) {
    fails(raise(operator).await, ErrorKind::Conflict, "an older process");
}

async fn all_go_on(fleet: &mut [Member]) {
    for member in fleet {
        let called = monotonic();
        while member.records.last().is_none_or(|record| record.from < called) {
            member.records.push(member.process.next().await);
        }
    }
}

struct Member {
    layout: u32,
    process: Child<HoldRecord>,
    records: Vec<HoldRecord>,
}

impl Member {
    async fn start(context: &Context, config: &Config, layout: u32) -> Self {
        let contested = context.contested(KEY).await;
        let soak = Soak {
            contested,
            tasks: 1,
            seconds: 600,
            kind: SoakKind::Exclusive,
            pairs_of: None,
            outlasts: false,
        };
        Self { layout, process: Child::of(command(config, Some(layout), &soak)), records: Vec::new() }
    }

    async fn end(mut self) -> Vec<HoldRecord> {
        self.records.extend(self.process.release().await);
        self.records
    }
}
