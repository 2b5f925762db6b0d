//! The events of what a wait watches, in their order.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::task::unconstrained;

use super::Armed;
use crate::driver::Event;

/// What came of the events.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Own(Event),
    /// The release was announced, and not (yet) the end of the node: it is no release until both have come.
    Announced,
    /// The release was announced, and the node is gone.
    Released,
    Watched(Event),
}

/// The next event of the own node, of a release or of what else is watched, in the order in which the server sent them as far as it
/// matters: neither of the first two is told behind one that came later.
pub(super) async fn next_told(
    own: &mut Option<Armed>,
    released: &mut Option<Armed>,
    watched: &mut Armed,
) -> Told {
    let poll = |armed: &mut Option<Armed>, context: &mut Context<'_>| match armed {
        Some(armed) => armed.as_mut().poll(context),
        None => Poll::Pending,
    };
    // Unconstrained: what is there is not to be kept back for fairness' sake.
    unconstrained(poll_fn(|context| {
        // What came first is looked at last: it is there then, if what came later is.
        let watched = watched.as_mut().poll(context);
        let announced = poll(released, context);
        if announced.is_ready() {
            *released = None;
        }
        let both = match (announced, watched) {
            (Poll::Ready(Event::Created), Poll::Ready(Event::Deleted)) => Poll::Ready(Told::Released),
            (Poll::Ready(Event::Created), Poll::Pending) => Poll::Ready(Told::Announced),
            (Poll::Ready(event), Poll::Pending) => Poll::Ready(Told::Watched(event)),
            (_, watched) => watched.map(Told::Watched),
        };
        let own = poll(own, context).map(Told::Own);
        [own, both].into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    }))
    .await
}

#[cfg(test)]
mod tests {
    use std::future;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    /// The events are dispatched by another task: they may come in the middle of a poll.
    #[tokio::test]
    async fn the_own_nodes_event_is_told_though_it_comes_with_the_others_behind_the_first_look() {
        let (tell, told) = oneshot::channel();
        let mut own: Option<Armed> = Some(Box::pin(told.map(|event| event.expect("told"))));
        let mut tell = Some(tell);
        let mut watched: Armed = Box::pin(poll_fn(move |_| {
            tell.take().expect("polled once").send(Event::Deleted).expect("watched");
            Poll::Ready(Event::Deleted)
        }));
        assert_eq!(next_told(&mut own, &mut None, &mut watched).await, Told::Own(Event::Deleted));
    }

    #[tokio::test]
    async fn a_release_is_told_by_both_of_its_events_and_by_neither_alone() {
        let event = |event| -> Armed { Box::pin(future::ready(event)) };
        let none = || -> Armed { Box::pin(future::pending()) };
        let (mut released, mut watched) = (Some(event(Event::Created)), event(Event::Deleted));
        assert_eq!(next_told(&mut None, &mut released, &mut watched).await, Told::Released);
        let (mut released, mut watched) = (Some(event(Event::Created)), none());
        assert_eq!(next_told(&mut None, &mut released, &mut watched).await, Told::Announced);
        assert_eq!(next_told(&mut None, &mut released, &mut watched).now_or_never(), None);
        let (mut released, mut watched) = (Some(none()), event(Event::Deleted));
        let alone = next_told(&mut None, &mut released, &mut watched).await;
        assert_eq!(alone, Told::Watched(Event::Deleted));
        let (mut released, mut watched) = (Some(event(Event::Created)), event(Event::Changed));
        let written = next_told(&mut None, &mut released, &mut watched).await;
        assert_eq!(written, Told::Watched(Event::Changed));
        let (mut released, mut watched) = (Some(event(Event::SessionOver)), none());
        let over = next_told(&mut None, &mut released, &mut watched).await;
        assert_eq!(over, Told::Watched(Event::SessionOver));
        let (mut released, mut watched) = (Some(event(Event::Created)), event(Event::Deleted));
        let mut own = Some(event(Event::Deleted));
        assert_eq!(next_told(&mut own, &mut released, &mut watched).await, Told::Own(Event::Deleted));
    }

    #[tokio::test]
    async fn what_is_watched_is_told_beside_an_own_node_of_which_there_is_no_news() {
        let mut watched: Armed = Box::pin(future::ready(Event::Changed));
        let mut own: Option<Armed> = Some(Box::pin(future::pending()));
        assert_eq!(next_told(&mut own, &mut None, &mut watched).await, Told::Watched(Event::Changed));
        let mut watched: Armed = Box::pin(future::ready(Event::Deleted));
        assert_eq!(next_told(&mut None, &mut None, &mut watched).await, Told::Watched(Event::Deleted));
    }
}
