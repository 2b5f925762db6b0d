use std::future::poll_fn;
use std::task::{Context, Poll};

use latchwork_core::Clock;
use tokio::task::unconstrained;

use crate::driver::{Armed, Event};
use crate::queue::fast_path::Release;
use crate::queue::woken::Woken;

pub(super) struct Ahead {
    pub(super) watched: Armed,
    pub(super) release: Option<Release>,
}

impl Ahead {
    fn poll(&mut self, context: &mut Context<'_>, clock: &Clock) -> Poll<Woken> {
        let watched = self.watched.as_mut().poll(context);
        match &mut self.release {
            Some(release) => release.poll(context, watched, clock),
            None => watched.map(Woken::by),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueEvent {
    Own(Event),
    Ahead(Woken),
}

/// An event of the own node is reported before a later event of a node ahead.
pub(super) async fn next_event(own: &mut Option<Armed>, ahead: &mut Ahead, clock: &Clock) -> QueueEvent {
    // Tokio's fairness must not hold back an event that has arrived.
    unconstrained(poll_fn(|context| {
        // The event that must win is polled last: if the other has arrived, it has too.
        let ahead = ahead.poll(context, clock);
        match own.as_mut().map(|own| own.as_mut().poll(context)) {
            Some(Poll::Ready(event)) => Poll::Ready(QueueEvent::Own(event)),
            _ => ahead.map(QueueEvent::Ahead),
        }
    }))
    .await
}

#[cfg(test)]
mod tests {
    use std::future;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn event(event: Event) -> Armed {
        Box::pin(future::ready(event))
    }

    fn none() -> Armed {
        Box::pin(future::pending())
    }

    fn released(release: Armed, watched: Armed) -> Ahead {
        Ahead { watched, release: Some(Release::new(release)) }
    }

    async fn next(own: Option<Armed>, ahead: &mut Ahead) -> QueueEvent {
        next_event(&mut { own }, ahead, &Clock::tokio()).await
    }

    /// Another task dispatches the events, possibly in the middle of a poll.
    #[tokio::test]
    async fn own_node_event_is_first_when_both_arrive_together() {
        let (send, sent) = oneshot::channel();
        let own: Armed = Box::pin(sent.map(|event| event.expect("sent")));
        let mut send = Some(send);
        let watched: Armed = Box::pin(poll_fn(move |_| {
            send.take().expect("polled once").send(Event::Deleted).expect("watched");
            Poll::Ready(Event::Deleted)
        }));
        let mut ahead = Ahead { watched, release: None };
        assert_eq!(next(Some(own), &mut ahead).await, QueueEvent::Own(Event::Deleted));
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_needs_both_of_its_events_together() {
        let mut both = released(event(Event::Created), event(Event::Deleted));
        assert_eq!(next(None, &mut both).await, QueueEvent::Ahead(Woken::Released));
        let mut announced = released(event(Event::Created), none());
        assert_eq!(next(None, &mut announced).now_or_never(), None);
        assert_eq!(next(None, &mut announced).now_or_never(), None);
        announced.watched = event(Event::Deleted);
        assert_eq!(next(None, &mut announced).await, QueueEvent::Ahead(Woken::Released));
        let mut alone = released(none(), event(Event::Deleted));
        assert_eq!(next(None, &mut alone).await, QueueEvent::Ahead(Woken::Left));
        let mut written = released(event(Event::Created), event(Event::Changed));
        assert_eq!(next(None, &mut written).await, QueueEvent::Ahead(Woken::Look));
        let mut over = released(event(Event::SessionOver), none());
        assert_eq!(next(None, &mut over).await, QueueEvent::Ahead(Woken::Look));
        let mut both = released(event(Event::Created), event(Event::Deleted));
        assert_eq!(next(Some(event(Event::Deleted)), &mut both).await, QueueEvent::Own(Event::Deleted));
    }

    #[tokio::test(start_paused = true)]
    async fn late_deletion_after_an_announcement_is_not_a_release() {
        let clock = Clock::tokio();
        let mut ahead = released(event(Event::Created), none());
        assert_eq!(next_event(&mut None, &mut ahead, &clock).now_or_never(), None);
        tokio::time::advance(std::time::Duration::from_millis(51)).await;
        ahead.watched = event(Event::Deleted);
        assert_eq!(next_event(&mut None, &mut ahead, &clock).await, QueueEvent::Ahead(Woken::Left));
    }

    #[tokio::test]
    async fn an_event_from_ahead_comes_though_the_own_node_has_none() {
        let mut ahead = Ahead { watched: event(Event::Changed), release: None };
        assert_eq!(next(Some(none()), &mut ahead).await, QueueEvent::Ahead(Woken::Look));
        let mut ahead = Ahead { watched: event(Event::Deleted), release: None };
        assert_eq!(next(None, &mut ahead).await, QueueEvent::Ahead(Woken::Left));
    }
}
