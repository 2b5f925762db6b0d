//! Joining a queue, and taking a join back.

use std::sync::Arc;

use latchwork_core::contracts::{Join, Joined, NodeId, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Standing, standing};
use latchwork_core::{Address, Error, ErrorKind, Kind, LostReason, Result};

use crate::config::Settings;
use crate::driver::{self, Connection, Joining, Look, Mode, Stat, Watch};
use crate::error::{Fault, Unheard};
use crate::history::{Birth, Expected, right_before};
use crate::lease::Session;
use crate::limit::{Limit, settle_limit};
use crate::names::{Queue, counter, id_prefix, is_used_up, numbered, prefix};
use crate::node::{Entry, First, ZkNode};
use crate::tags::sequence;

/// How often a join makes a queue's directory that the server removes under it (it does so with empty ones).
const COLD_TRIES: usize = 5;

/// Where a queue is on the server.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The stored limit's node, for permits.
    pub(crate) limit: Option<String>,
}

impl Site {
    pub(crate) fn of(queue: &Address) -> Result<Self> {
        let limit = (queue.kind() == Kind::Semaphore).then(|| Settings::limit_path(queue));
        Ok(Self { path: Settings::queue_path(queue)?, kind: queue.kind(), limit })
    }

    /// The path of the node of this name.
    pub(crate) fn node(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

/// A listing, with the limit that counts for it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) queue: Queue,
    pub(crate) limit: Limit,
}

/// Carries a join out: one try.
pub(crate) async fn join(session: &Arc<Session>, join: &Join) -> Result<Joined> {
    let site = Site::of(&join.queue)?;
    let joined = enter(session, &site, join).await;
    session.names.joined(&site.path, join, &joined);
    joined
}

async fn enter(session: &Arc<Session>, site: &Site, join: &Join) -> Result<Joined> {
    if let (Claim::Permits(weight), Some(limit)) = (join.claim, join.limit.exactly())
        && weight > limit
    {
        return Err(join.conflict(&Some(limit).into()));
    }
    let name = session.names.lend(&site.path, join.id, join.repeated);
    let made = make(session, site, join, name).await.map_err(|fault| overtaken(session, fault, "join"))?;
    let Made { path, stat, shown, limit } = made;
    let node = ZkNode::new(session, site, &path, &stat, join);
    if is_used_up(counter(site.kind, node.name())) {
        node.take_back().await?;
        return Err(used_up(&session.settings, &site.path));
    }
    let children = match shown {
        Shown::Nobody => {
            node.enter(Entry::Seen, None, Limit::default())?;
            return Ok(Joined::Admitted(node));
        }
        Shown::Queue(children) => children,
        Shown::Ahead(path, watch, connection) => {
            *node.first.lock() = Some(First::Behind(path, Box::pin(watch.event()), connection));
            return Ok(Joined::Waiting(node));
        }
    };
    let (limit, read_later) = match settle_limit(session, site, join, limit).await {
        Ok(settled) => settled,
        Err(error) => {
            node.take_back().await?;
            return Err(error);
        }
    };
    let queue = node.read_queue(children);
    let Some(own) = queue.position(node.name()) else {
        // Made and gone again before the listing: somebody's hand.
        return Err(Error::lost(LostReason::Revoked));
    };
    match standing(&queue.listed(|_| false), own, limit.permits) {
        Standing::Admitted { mark } => {
            node.enter(Entry::of(mark || read_later), None, limit)?;
            Ok(Joined::Admitted(node))
        }
        _ if join.patience == Patience::Try => {
            node.take_back().await?;
            Ok(Joined::Refused)
        }
        _ => {
            *node.first.lock() = Some(First::View(Box::new(View { queue, limit })));
            Ok(Joined::Waiting(node))
        }
    }
}

/// The server's counter of this directory has no number left that orders a node.
fn used_up(settings: &Settings, queue: &str) -> Error {
    let path = format!("{}{queue}", settings.chroot.as_deref().unwrap_or_default());
    let why = format!(
        "the queue {path} has used up its directory's counter (cversion, up to {}): nobody can join it. Once nobody holds or waits \
         there, delete {path}, and it begins anew at 0; the server does so by itself when the queue was empty for some minutes",
        i32::MAX - 1,
    );
    Error::new(ErrorKind::Misconfigured, why)
}

/// Removes whatever an attempt has left. A request of it that still waits to be sent on this session is
/// carried out before the listing; one sent on a connection that broke is, too, by the `sync` (RULES B8).
pub(crate) async fn abandon(session: &Arc<Session>, join: &Join) -> Result<()> {
    let site = Site::of(&join.queue)?;
    let work = async {
        let children = match session.driver.sync_children(&site.path).await {
            Ok(children) => children,
            Err(Fault::NoNode) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        for name in with_id(&children, session.names.of(join.id)) {
            delete(session, &site.node(name)).await?;
        }
        Ok(())
    };
    let answer = work.await;
    if matches!(answer, Ok(()) | Err(Fault::Gone)) {
        session.names.settle(join.id);
    }
    match answer {
        // Whatever there is goes with the session.
        Err(Fault::Gone) => session.over().map(drop).ok_or_else(Error::closed),
        Err(fault) => Err(overtaken(session, fault, "abandon a join")),
        Ok(()) => Ok(()),
    }
}

/// An own node that was made, and what was seen behind it.
struct Made {
    path: String,
    stat: Stat,
    shown: Shown,
    limit: Option<std::result::Result<(Vec<u8>, Stat), Fault>>,
}

enum Shown {
    /// That nobody is ahead of it.
    Nobody,
    Queue(Vec<String>),
    /// This path only: it is right ahead, and watched; on the connection as it was before, where that is the own session's.
    Ahead(String, Watch, Option<Connection>),
}

/// The node of this attempt: an earlier request's, or a new one.
async fn make(
    session: &Arc<Session>,
    site: &Site,
    join: &Join,
    name: NodeId,
) -> std::result::Result<Made, Fault> {
    if join.repeated
        && let Some(made) = adopt(session, site, name).await?
    {
        return Ok(made);
    }
    let prefix = prefix(site.kind, name, join.claim);
    let (waits, now) = (join.patience == Patience::Wait, session.lease().clock().now());
    // A reader may come in beside its predecessor.
    let expected = match join.claim {
        Claim::Exclusive => session.history.expected(site.kind, &site.path, waits, now),
        _ => None,
    };
    let cold = match expected {
        Some(expected) => match create_alone(session, site, join, &prefix, expected).await? {
            Some(made) => return Ok(made),
            None => true,
        },
        None => false,
    };
    create(session, site, join, &prefix, cold).await
}

/// Finds the node of an earlier request of this attempt whose outcome was unknown. It counts only if it hangs
/// on this session, and only the lowest: all others of this attempt are removed (RULES B8).
async fn adopt(
    session: &Arc<Session>,
    site: &Site,
    name: NodeId,
) -> std::result::Result<Option<Made>, Fault> {
    let children = match session.driver.sync_children(&site.path).await {
        Ok(children) => children,
        Err(Fault::NoNode) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let mine = Queue::read(site.kind, with_id(&children, name).cloned().collect());
    let paths: Vec<_> = mine.0.iter().map(|place| site.node(&place.name)).collect();
    let found = session.driver.read_all(&paths).await?;
    let mut kept = None;
    for (path, found) in paths.iter().zip(found) {
        match found {
            Some((_, stat)) if kept.is_none() && stat.owner == session.driver.session() => {
                kept = Some((path.clone(), stat));
            }
            Some(_) => delete(session, path).await?,
            None => {}
        }
    }
    let Some((path, stat)) = kept else { return Ok(None) };
    let Look { children, limit } = session.driver.look(&site.path, site.limit.as_deref(), false).await?;
    Ok(Some(Made { path, stat, shown: Shown::Queue(children), limit }))
}

/// The node alone, in the expectation that what is ahead of it is known then. Where it is not the queue is listed, in a trip
/// more. `None`: the queue's directory is not there.
async fn create_alone(
    session: &Arc<Session>,
    site: &Site,
    join: &Join,
    prefix: &str,
    expected: Expected,
) -> std::result::Result<Option<Made>, Fault> {
    let (driver, history) = (&session.driver, &session.history);
    let guess = match &expected {
        Expected::Behind(neighbour, counter) => {
            counter.map(|counter| site.node(&numbered(neighbour, counter)))
        }
        Expected::Free => None,
    };
    let weight = guess.as_deref().map(|guess| driver.weight_of(guess));
    let room = weight.and_then(|weight| driver.room_to_wait(weight));
    let guess = guess.filter(|_| room.is_some());
    // Taken before anything is armed on it.
    let connection = driver.connection();
    let made = driver.create_sequential(&site.node(prefix), join.label.as_bytes(), guess.as_deref()).await;
    drop(room);
    let (path, stat, watched) = match made {
        Err(Fault::NoNode) => {
            history.forget(&site.path);
            return Ok(None);
        }
        made => made?,
    };
    let birth = Birth::of(site.kind, &path, sequence(&stat));
    if birth.is_some_and(|birth| history.made(site.kind, &site.path, birth)) {
        return Ok(Some(Made { path, stat, shown: Shown::Nobody, limit: None }));
    }
    let ahead = match (birth, expected) {
        (Some(birth), Expected::Behind(neighbour, _)) => {
            right_before(birth.counter).map(|counter| site.node(&numbered(&neighbour, counter)))
        }
        _ => None,
    };
    let list = async || driver.children(&site.path).await.map(Shown::Queue);
    let shown = match ahead {
        None => list().await,
        Some(ahead) => {
            let (watched, here) = match watched.filter(|_| guess.as_ref() == Some(&ahead)) {
                Some(watched) => (watched, true),
                None => {
                    let place = session.place([ahead.as_str()]).await;
                    (place.watch(&ahead).await.map(|(_, _, watch)| watch), place.is_here())
                }
            };
            let connection = here.then_some(connection);
            match watched {
                Ok(watch) => Ok(Shown::Ahead(ahead, watch, connection)),
                Err(Fault::NoNode) => {
                    history.forget_neighbour(&site.path);
                    list().await
                }
                Err(fault) => Err(fault),
            }
        }
    };
    let shown = or_undone(session, &path, shown).await?;
    Ok(Some(Made { path, stat, shown, limit: None }))
}

async fn create(
    session: &Arc<Session>,
    site: &Site,
    join: &Join,
    prefix: &str,
    cold: bool,
) -> std::result::Result<Made, Fault> {
    let mut joining =
        Joining { queue: &site.path, prefix, label: &join.label, limit: site.limit.as_deref(), cold };
    for _ in 0..COLD_TRIES {
        let driver::Joined { created, children, limit } = session.driver.join(joining).await?;
        let (path, stat) = match created {
            Ok(created) => created,
            Err(Fault::NoNode) if joining.cold => {
                // The directories above are missing too. Ours are made at connect, and plain: an
                // operator removed them. Others' are made as Curator makes them.
                let parent = site.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                let mode = if join.queue.is_exact() { Mode::Container } else { Mode::Persistent };
                if !parent.is_empty() {
                    session.driver.make_path(parent, mode).await?;
                }
                continue;
            }
            Err(Fault::NoNode) => {
                joining.cold = true;
                continue;
            }
            Err(fault) => return Err(fault),
        };
        if let Some(birth) =
            Birth::of(site.kind, &path, sequence(&stat)).filter(|_| join.claim == Claim::Exclusive)
        {
            // The listing decides, that came in the same trip; what it would have been is remembered.
            session.history.made(site.kind, &site.path, birth);
        }
        let shown = or_undone(session, &path, children.map(Shown::Queue)).await?;
        return Ok(Made { path, stat, shown, limit });
    }
    Err(Fault::NoNode)
}

/// What was seen behind the create of this path, or its end.
async fn or_undone(
    session: &Session,
    path: &str,
    shown: std::result::Result<Shown, Fault>,
) -> std::result::Result<Shown, Fault> {
    match shown {
        // The create is known, the listing is not: told as unknown, so that the node is found again.
        Err(fault) if fault.is_transient() => Err(Fault::Unknown(Unheard::default())),
        Err(fault) => {
            // Not allowed to look, say: nothing is to be left behind then.
            delete(session, path).await.map_err(|_| Fault::Unknown(Unheard::default()))?;
            Err(fault)
        }
        Ok(shown) => Ok(shown),
    }
}

fn with_id(children: &[String], id: NodeId) -> impl Iterator<Item = &String> {
    let prefix = id_prefix(id);
    children.iter().filter(move |name| name.starts_with(&prefix))
}

/// Deletes; what is gone already is fine.
pub(crate) async fn delete(session: &Session, path: &str) -> std::result::Result<(), Fault> {
    match session.driver.delete(path).await {
        Err(Fault::NoNode) => Ok(()),
        answer => answer,
    }
}

/// The error of a request under which the session may have ended.
pub(crate) fn overtaken(session: &Session, fault: Fault, what: &str) -> Error {
    match fault {
        Fault::Gone => match session.over() {
            Some(LostReason::Closed) | None => Error::closed(),
            Some(reason) => Error::lost(reason),
        },
        fault => match (&fault, session.lease().lost()) {
            (Fault::Unknown(_), Some(reason @ (LostReason::Expired | LostReason::Forgotten))) => {
                Error::lost(reason)
            }
            _ => fault.error(what),
        },
    }
}
