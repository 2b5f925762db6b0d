//! Each phase has a separate move, which stays in that phase, so all phases are measured at the same time,
//! and a repeated run finds the moves of the run before.

use std::sync::Arc;

use futures_util::future::{try_join, try_join_all};
use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::{Config, Connector, Coordinator, Move, MoveConfig, connect};

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::Subject;
use crate::recipe::Recipe;
use crate::target::{NAMESPACE, Target};
use crate::trial::LONG_TTL;
use crate::turns::{self, ServerTerms};

pub(super) const MOVE: &str = "MOVE";
pub(super) const ON_OLD: &str = "latchwork-on-old";
pub(super) const ON_NEW: &str = "latchwork-on-new";

/// In a phase on both sides a participant also reads the stage, on the old side.
pub(super) const IN_PHASE: [(MovePhase, &str); 5] = [
    (MovePhase::Old, "latchwork-moving-old"),
    (MovePhase::BothByOld, "latchwork-moving-both-by-old"),
    (MovePhase::BothByNew, "latchwork-moving-both-by-new"),
    (MovePhase::New, "latchwork-moving-new"),
    (MovePhase::Done, "latchwork-moving-done"),
];

fn times_of(recipe: Recipe, new: &Target) -> String {
    format!("{recipe} to {}", new.name())
}

pub(super) fn asked_of(times: &str) -> [String; 2] {
    ["old", "new"].map(|side| format!("{times}, {side} side"))
}

pub(super) async fn measure(old: &Target, new: &Target, recipe: Recipe, plan: &Plan) -> Result<Vec<Line>> {
    let connectors = [old.connectors(), new.connectors()].concat();
    let plain = |of: &Target| {
        let mut config = of.config().clone();
        (config.namespace, config.ttl) = (format!("{NAMESPACE}-plain"), config.ttl.max(LONG_TTL));
        let connectors = &connectors;
        async move { connect(connectors, &config).await }
    };
    let (on_old, on_new) = try_join(plain(old), plain(new)).await?;
    let moving = IN_PHASE.iter().map(|(phase, _)| participant(&connectors, old, new, *phase));
    let moving = try_join_all(moving).await?;

    let peers = [ON_OLD, ON_NEW].into_iter().chain(IN_PHASE.map(|(_, peer)| peer));
    let clients: Vec<Coordinator> = [on_old, on_new].into_iter().chain(moving).collect();
    let subjects = peers.zip(&clients).map(|(peer, client)| {
        let pair = Box::new(recipe.lock(client, "move")?);
        Ok(Subject { peer, pair })
    });
    let subjects = subjects.collect::<Result<Vec<_>>>()?;

    let times = times_of(recipe, new);
    let [of_old, of_new] = asked_of(&times);
    let mut counted = vec![(old.counter(), of_old)];
    if !is_same(old, new) {
        counted.push((new.counter(), of_new));
    }
    let unit = "server requests/acquisition";
    let terms = ServerTerms { server: old.name(), measure: MOVE, param: &times, counted, unit };
    let lines = turns::measure(subjects, plan, &terms).await?;
    try_join_all(clients.iter().map(Coordinator::close)).await?;
    Ok(lines)
}

fn is_same(old: &Target, new: &Target) -> bool {
    old.name() == new.name() && old.addr() == new.addr()
}

async fn participant(
    connectors: &[Arc<dyn Connector>],
    old: &Target,
    new: &Target,
    phase: MovePhase,
) -> Result<Coordinator> {
    let side = |of: &Target, role: &str, other: &Target| {
        let mut config = of.config().clone();
        config.namespace = format!("{NAMESPACE}-{phase}-{role}-{}", other.name());
        config.ttl = config.ttl.max(LONG_TTL);
        config
    };
    let sides = MoveConfig::new(side(old, "to", new), side(new, "from", old), "bench");
    let participant = connect(connectors, &Config::of_move(sides.clone())).await?;
    if phase != MovePhase::Old {
        let operator = Move::connect(connectors, &sides).await?;
        while operator.status().await?.phase < phase {
            operator.advance(|_| {}).await?;
        }
        operator.close().await?;
    }
    Ok(participant)
}
