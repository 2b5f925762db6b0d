mod announced;
mod known;
mod order;
mod permits;
mod rwlock;
mod shortcut;

use std::sync::Arc;

use crate::common::{admitted, join, waiting};
use latchwork_conformance::actions::take_a_turn;
use latchwork_core::Address;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, Node};

async fn line_up(client: &Arc<dyn Backend>, queue: &Address, behind: usize) -> Vec<Arc<dyn Node>> {
    let mut line = vec![admitted(client.join(&join(queue, Exclusive)).await)];
    for _ in 0..behind {
        line.push(waiting(client.join(&join(queue, Exclusive)).await));
    }
    line
}

async fn all_hold_and_release(line: Vec<Arc<dyn Node>>) {
    for node in line {
        take_a_turn(&node).await;
    }
}
