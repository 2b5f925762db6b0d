use async_trait::async_trait;
use latchwork_core::recipes::{MultiLock, MultiMember};

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::{self, Pair, Subject};
use crate::recipe::{Ask, Lock, Recipe};
use crate::target::Target;
use crate::turns::{self, ServerTerms};

pub(super) const MULTI: &str = "latchwork-multi-3";

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

/// `beside` adds three mutexes as one lock, and a mutex' requests sent raw.
pub(super) async fn measure(target: &Target, recipe: Recipe, beside: bool, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let ours = Subject { peer: recipe.peer(), pair: Box::new(recipe.lock(&client, "m1")?) };
    let mut subjects = vec![ours];
    if beside {
        let three = ["m1-a", "m1-b", "m1-c"].map(|key| client.mutex(key).map(MultiMember::from));
        let three = MultiLock::new(three.into_iter().collect::<latchwork_core::Result<Vec<_>>>()?)?;
        subjects.push(Subject { peer: MULTI, pair: Box::new(three) });
    }
    if beside && plan.raw {
        subjects.extend(raw::subjects(target).await?);
    }
    let terms = ServerTerms::of(target, ["M1", "uncontended", "server requests/acquisition"]);
    let lines = turns::measure(subjects, plan, &terms).await?;
    client.close().await?;
    Ok(lines)
}
