//! M1: one task, one key, beside the same requests sent raw; and what the server was asked for
//! (M4).

use async_trait::async_trait;
use latchwork_core::recipes::{MultiLock, MultiMember};

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::{self, Pair, Subject};
use crate::recipe::{Ask, Lock, Recipe};
use crate::target::Target;
use crate::turns::{self, Named};

/// The name of a MultiLock of three mutexes among the peers.
pub(super) const MULTI: &str = "latchwork-multi-3";

const NAMED: Named = Named { measure: "M1", asked: "uncontended", unit: "server requests/acquisition" };

#[async_trait]
impl Pair for MultiLock {
    async fn once(&mut self) -> Result<()> {
        let hold = self.acquire().await?;
        Ok(hold.release().await?)
    }
}

#[async_trait]
impl Pair for Lock {
    async fn once(&mut self) -> Result<()> {
        let hold = self.acquire(Ask::Alone).await?;
        Ok(hold.release().await?)
    }
}

/// A mutex by itself, with nothing beside it.
pub(super) async fn alone(target: &Target, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let pair = Box::new(Recipe::Mutex.lock(&client, "m1")?);
    let subjects = vec![Subject { peer: Recipe::Mutex.peer(), pair }];
    let lines = turns::measure(target, subjects, plan, NAMED).await?;
    client.close().await?;
    Ok(lines)
}

pub(super) async fn measure(target: &Target, recipe: Recipe, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let ours = Subject { peer: recipe.peer(), pair: Box::new(recipe.lock(&client, "m1")?) };
    let mut subjects = vec![ours];
    if recipe == Recipe::Mutex {
        let three = ["m1-a", "m1-b", "m1-c"].map(|key| client.mutex(key).map(MultiMember::from));
        let three = MultiLock::new(three.into_iter().collect::<latchwork_core::Result<Vec<_>>>()?)?;
        subjects.push(Subject { peer: MULTI, pair: Box::new(three) });
    }
    // What is sent raw is a mutex' requests.
    if plan.raw && recipe == Recipe::Mutex {
        subjects.extend(raw::subjects(target).await?);
    }
    let lines = turns::measure(target, subjects, plan, NAMED).await?;
    client.close().await?;
    Ok(lines)
}
