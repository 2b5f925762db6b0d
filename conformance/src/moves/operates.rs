use std::sync::Arc;

use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::{Config, Connector, Error, Move, Result};
use serde::{Deserialize, Serialize};

use super::advance::advance;
use super::side::Sides;
use crate::child::Role;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operates {
    /// To *new*, from which it may come back.
    ToNew,
    Abort,
    Run,
    Finish,
}

impl Role for Operates {
    type Event = ();

    const NAME: &'static str = "operates";

    async fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let sides = config.moving.as_deref();
        let sides = sides.ok_or_else(|| {
            Error::invalid("config", "the configuration of an operator must name two sides")
        })?;
        let operator = Move::connect(connectors, sides).await?;
        self.by(&operator).await?;
        operator.close().await
    }
}

impl Operates {
    pub(super) async fn by(self, operator: &Move) -> Result<()> {
        match self {
            Operates::ToNew => {
                while operator.status().await?.phase < MovePhase::New {
                    advance(operator).await?;
                }
                Ok(())
            }
            Operates::Abort => operator.abort(|_| {}).await,
            Operates::Run => operator.run(|_| {}).await,
            Operates::Finish => operator.finish().await,
        }
    }
}

pub(super) async fn another(sides: &Sides) -> std::result::Result<Move, String> {
    Move::connect(&sides.connectors(), &sides.operators()).await.map_err(said)
}

pub(super) fn said(error: Error) -> String {
    format!("the operator: {error:?}")
}
