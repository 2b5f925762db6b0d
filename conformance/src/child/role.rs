use std::fmt;
use std::sync::Arc;

use latchwork_core::{Config, Connector, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};

/// The work of a child. Fields are its arguments.
pub trait Role: Serialize + DeserializeOwned {
    /// A report.
    type Event: Serialize + DeserializeOwned + fmt::Debug + Send + 'static;

    /// The name, unique in a program.
    const NAME: &'static str;

    /// Whether it has one thread, so that no other finishes leftover tasks.
    const HAS_ONE_THREAD: bool = false;

    /// Does the work.
    fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> impl Future<Output = Result<()>>;

    /// Reports an event.
    fn say(event: &Self::Event) {
        println!("{}", serde_json::to_string(event).expect("an event is JSON"));
    }
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Report your state.
    Look,
    /// Release all, and end.
    Release,
}

/// The orders.
#[derive(Debug)]
pub struct Orders(Lines<BufReader<Stdin>>);

impl Orders {
    /// Reads standard input.
    #[expect(clippy::new_without_default, reason = "a process has one standard input")]
    pub fn new() -> Self {
        Self(BufReader::new(stdin()).lines())
    }

    /// Returns the next order: a release at the end of the input. Cancel safe.
    pub async fn next(&mut self) -> Order {
        while let Ok(Some(line)) = self.0.next_line().await {
            // At a terminal it is a bare word.
            match serde_json::from_value(line.trim_matches('"').into()) {
                Ok(order) => return order,
                Err(_) => eprintln!("unknown order {line:?}: expected look or release"),
            }
        }
        Order::Release
    }
}
