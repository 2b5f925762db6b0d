//! Joining a queue: one trip creates the node and lists the queue.
//!
//! On one connection, the listing shows the own node and all nodes that were created before it, so possibly
//! too many nodes ahead, never too few. In a queue that admits every node, the number of children is enough.

use std::sync::Arc;

use latchwork_core::backend::decide::chain::{Standing, standing};
use latchwork_core::backend::{Join, Joined, NodeId, Patience};
use latchwork_core::{Claim, Error, ErrorKind, LostReason, Result};

use super::admission::Admission;
use super::created::{CreatedNode, Shown, or_undone};
use super::fast_path::{self, WithoutListing};
use super::late::CreateUnderWay;
use super::limit::{LimitReply, WrittenLimit, settle_limit};
use super::session::Session;
use super::unsettled::Own;
use super::zk_node::{FirstLook, Listing, ZkNode};
use crate::config::Settings;
use crate::driver::{Children, JoinReply, JoinRequest, NodeMode, QueueReply};
use crate::error::{Answer, Fault};
use crate::layout::{Contenders, QueuePaths, counter, has_id, is_used_up, plain, prefix, split};

/// How often a join creates the queue's directory again, which the server removes when empty.
const COLD_TRIES: usize = 5;

pub(crate) async fn join(session: &Arc<Session>, join: &Join) -> Result<Joined> {
    let queue = QueuePaths::of(&join.queue)?;
    let joined = enter(session, &queue, join).await;
    session.names.joined(&queue.directory, join, &joined);
    joined
}

async fn enter(session: &Arc<Session>, queue: &QueuePaths, join: &Join) -> Result<Joined> {
    if let (Claim::Permits(weight), Some(limit)) = (join.claim, join.limit.exactly())
        && weight > limit
    {
        return Err(join.conflict(&Some(limit).into()));
    }
    let name = session.names.lend(&queue.directory, join.id, join.repeated);
    let under_way = CreateUnderWay::begin(session, queue, name).await;
    let created = create(session, queue, join, name).await;
    under_way.ended(created.as_ref().err());
    let CreatedNode { path, stat, shown, limit } = created.map_err(|fault| session.error(fault, "join"))?;
    let node = ZkNode::new(session, queue, &path, &stat, join);
    let own = counter(queue.kind, node.name());
    if is_used_up(own) {
        node.take_back().await?;
        return Err(used_up(&session.settings, &queue.directory));
    }
    let joined = match shown {
        Shown::Admitted(behind) => {
            node.state.joined_behind(behind);
            node.enter(Admission::Seen, None, WrittenLimit::default())?;
            Ok(Joined::Admitted(node))
        }
        Shown::Behind(predecessor) => {
            *node.first_look.lock() = Some(Box::new(FirstLook::Behind(predecessor)));
            Ok(Joined::Waiting(node))
        }
        Shown::Queue(children) => stand(session, queue, join, node, children, limit).await,
    };
    match joined {
        Ok(Joined::Refused) => session.unsettled.over(name).await,
        Ok(_) => session.unsettled.owns(name, Own::Known(own)).await,
        Err(_) => {}
    }
    joined
}

async fn stand(
    session: &Session,
    queue: &QueuePaths,
    join: &Join,
    node: Arc<ZkNode>,
    children: Vec<String>,
    limit: LimitReply,
) -> Result<Joined> {
    let (limit, read_later) = match settle_limit(session, queue, join, limit).await {
        Ok(settled) => settled,
        Err(error) => {
            node.take_back().await?;
            return Err(error);
        }
    };
    let contenders = node.contenders(children);
    let Some(own) = contenders.position(node.name()) else {
        // Another client removed the node before the listing.
        return Err(Error::lost(LostReason::Revoked));
    };
    node.state.joined_behind(own);
    match standing(&contenders.listed(|_| false), own, limit.permits) {
        Standing::Admitted { mark } => {
            node.enter(Admission::seen(mark || read_later), None, limit)?;
            Ok(Joined::Admitted(node))
        }
        _ if join.patience == Patience::Try => {
            node.take_back().await?;
            Ok(Joined::Refused)
        }
        _ => {
            *node.first_look.lock() = Some(Box::new(FirstLook::Listing(Listing { contenders, limit })));
            Ok(Joined::Waiting(node))
        }
    }
}

fn used_up(settings: &Settings, directory: &str) -> Error {
    let path = format!("{}{directory}", settings.chroot.as_deref().unwrap_or_default());
    let why = format!(
        "no client can join the queue {path}: the counter of its directory (cversion, up to {}) is used up. When no client holds or waits \
         there, delete {path}: the counter then starts again at 0. The server also deletes a queue that is empty for some minutes",
        i32::MAX - 1,
    );
    Error::new(ErrorKind::Misconfigured, why)
}

async fn create(session: &Session, queue: &QueuePaths, join: &Join, name: NodeId) -> Answer<CreatedNode> {
    if join.repeated
        && let Some(adopted) = adopt(session, queue, name).await?
    {
        return Ok(adopted);
    }
    let prefix = prefix(queue.kind, name, join.claim);
    let cold = match fast_path::create_without_listing(session, queue, join, &prefix).await? {
        WithoutListing::Created(created) => return Ok(*created),
        WithoutListing::NoDirectory => true,
        WithoutListing::NotTried => false,
    };
    let (limit, data) = (queue.limit.as_deref(), plain(queue.data, &join.label, &join.data));
    let counts = queue.kind.admits_all();
    let mut request =
        JoinRequest { queue: &queue.directory, prefix: &prefix, data: &data, limit, counts, cold };
    for _ in 0..COLD_TRIES {
        let JoinReply { created, children, limit } = session.driver.join(request).await?;
        let (path, stat) = match created {
            Ok(created) => created,
            Err(Fault::NoNode) if request.cold => {
                make_parent(session, queue, join).await?;
                continue;
            }
            Err(Fault::NoNode) => {
                request.cold = true;
                continue;
            }
            Err(fault) => return Err(fault),
        };
        fast_path::created(session, queue, join.claim, &path, &stat);
        let shown = children.map(|children| match children {
            Children::Names(names) => Shown::Queue(names),
            // The queue admits every node.
            Children::Number(number) => Shown::Admitted(number.saturating_sub(1)),
        });
        let shown = or_undone(session, &path, shown).await?;
        return Ok(CreatedNode { path, stat, shown, limit });
    }
    Err(Fault::NoNode)
}

/// Finds the node of an earlier request of this attempt whose outcome was unknown
/// (CHAIN-SYNC-AFTER-UNKNOWN-CREATE). It must belong to this session, with no deletion under way. The lowest
/// node counts, others are removed.
async fn adopt(session: &Session, queue: &QueuePaths, name: NodeId) -> Answer<Option<CreatedNode>> {
    let children = session.lease.children_by_majority(&queue.directory).await?;
    let mine = Contenders::read(queue.kind, has_id(&children, name).cloned().collect());
    if mine.0.is_empty() {
        return Ok(None);
    }
    let paths: Vec<_> = mine.0.iter().map(|contender| queue.node(&contender.name)).collect();
    let found = session.driver.read_all(&paths).await?;
    let mut kept = None;
    for (path, found) in paths.iter().zip(found) {
        match found {
            Some((_, stat))
                if kept.is_none()
                    && stat.ephemeral_owner == session.driver.session()
                    && !session.unsettled.is_doomed(path) =>
            {
                kept = Some((path.clone(), stat));
            }
            Some(_) => drop(session.driver.delete(path).await?),
            None => {}
        }
    }
    let Some((path, stat)) = kept else { return Ok(None) };
    let QueueReply { children, limit } =
        session.driver.look(&queue.directory, queue.limit.as_deref(), false).await?;
    Ok(Some(CreatedNode { path, stat, shown: Shown::Queue(children), limit }))
}

/// In a namespace they are plain nodes, which are missing before the first queue of the kind, or if an
/// operator removed them. At an exact address they are containers, as in Curator.
async fn make_parent(session: &Session, queue: &QueuePaths, join: &Join) -> Answer<()> {
    let (parent, _) = split(&queue.directory);
    let mode = if join.queue.is_exact() { NodeMode::Container } else { NodeMode::Persistent };
    if parent.is_empty() { Ok(()) } else { session.driver.make_path(parent, mode).await }
}
