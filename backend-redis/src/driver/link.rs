use std::fmt;
use std::sync::Arc;

use latchwork_core::Error;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::Host;
use crate::error::{Answer, from_redis, timed_out};

pub(super) enum Link {
    Up(Wire),
    Down(Error),
    Closed,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Link::Up(_) => "up",
            Link::Down(_) => "down",
            Link::Closed => "closed",
        })
    }
}

impl Link {
    pub(super) fn is_up(&self, generation: u64) -> bool {
        matches!(self, Link::Up(wire) if wire.generation == generation)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Link::Closed)
    }

    pub(super) fn why(&self) -> Option<Error> {
        match self {
            Link::Down(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// A newer connection stays up.
pub(super) fn take_down(link: &watch::Sender<Link>, generation: u64, why: &Error) {
    take_down_if(link, why, |wire| wire.generation == generation);
}

pub(super) fn take_down_if(link: &watch::Sender<Link>, why: &Error, useless: impl Fn(&Wire) -> bool) {
    link.send_if_modified(|link| {
        let is_useless = matches!(link, Link::Up(wire) if useless(wire));
        if is_useless {
            *link = Link::Down(why.clone());
        }
        is_useless
    });
}

#[derive(Clone)]
pub(super) struct Wire {
    pub(super) generation: u64,
    pub(super) host: Arc<Host>,
    pub(super) connection: MultiplexedConnection,
}

impl Wire {
    /// The client crate keeps the bound.
    pub(super) async fn answer(&mut self, command: &Cmd, asks: bool, until: Instant) -> Answer<Value> {
        self.connection.set_response_timeout(until.saturating_duration_since(Instant::now()));
        let answer = match asks {
            false => self.connection.send_packed_command(command).await,
            true => {
                // One write, so that no other request comes between.
                let mut both = redis::pipe();
                both.cmd("ASKING").ignore().add_command(command.clone());
                let answers = self.connection.send_packed_commands(&both, 1, 1).await;
                answers.map(|mut answers| answers.pop().unwrap_or(Value::Nil))
            }
        };
        let answer = answer.and_then(Value::extract_error);
        answer.map_err(|error| if error.is_timeout() { timed_out() } else { from_redis(error, true) })
    }
}

/// Does not keep the connection open.
#[derive(Clone, Debug)]
pub(crate) struct LiveConnection {
    pub(super) link: watch::Receiver<Link>,
    pub(super) generation: u64,
    pub(super) host: Arc<Host>,
}

impl LiveConnection {
    pub(crate) fn is(&self, other: &LiveConnection) -> bool {
        self.generation == other.generation && self.link.same_channel(&other.link)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.borrow().is_up(self.generation)
    }

    /// Cancel-safe.
    pub(crate) async fn ended(&mut self) {
        let generation = self.generation;
        // An error: the driver itself has ended.
        let _ = self.link.wait_for(|link| !link.is_up(generation)).await;
    }
}

pub(crate) struct Losses(pub(super) watch::Receiver<Link>);

impl Losses {
    /// Waits for a connection, and then for its loss. `None`: the driver is closed or dropped.
    ///
    /// Not cancel-safe: a loss between two calls may be missed.
    pub(crate) async fn next(&mut self) -> Option<()> {
        self.0.wait_for(|link| !matches!(link, Link::Down(_))).await.ok()?;
        let closed = self.0.wait_for(|link| !matches!(link, Link::Up(_))).await.ok()?;
        (!closed.is_closed()).then_some(())
    }
}
