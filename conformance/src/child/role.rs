//! The work of a child process, and its messages to and from its parent.

use std::fmt;
use std::sync::Arc;

use latchwork_core::{Config, Connector, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};

/// The work of a child process. Its fields are the arguments.
pub trait Role: Serialize + DeserializeOwned {
    /// A report of the child to its parent.
    type Event: Serialize + DeserializeOwned + fmt::Debug + Send + 'static;

    /// The name of the role, unique in a program.
    const NAME: &'static str;

    /// Whether the child has one thread: a task that is left when the work ends then has no other thread to finish on.
    const HAS_ONE_THREAD: bool = false;

    /// Does the work. The process fails if this fails.
    fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> impl Future<Output = Result<()>>;

    /// Reports an event to the parent.
    fn say(event: &Self::Event) {
        // println! flushes at the line's end: stdout is line-buffered.
        println!("{}", serde_json::to_string(event).expect("an event is JSON"));
    }
}

/// An order of a parent to its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Report your state.
    Look,
    /// Release all holds, and end.
    Release,
}

/// The orders of the parent.
#[derive(Debug)]
pub struct Orders(Lines<BufReader<Stdin>>);

impl Orders {
    /// Reads the standard input of this process.
    #[expect(clippy::new_without_default, reason = "a process has one standard input")]
    pub fn new() -> Self {
        Self(BufReader::new(stdin()).lines())
    }

    /// Returns the next order. The end of the input counts as an order to release, because the parent has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: no order is lost.
    pub async fn next(&mut self) -> Order {
        while let Ok(Some(line)) = self.0.next_line().await {
            // At a terminal, the order is a bare word.
            match serde_json::from_value(line.trim_matches('"').into()) {
                Ok(order) => return order,
                Err(_) => eprintln!("unknown order {line:?}: expected look or release"),
            }
        }
        Order::Release
    }
}
