use std::sync::Arc;

use tokio::sync::watch;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::watched::{View, Watched};

#[derive(Clone)]
pub(super) struct Watcher<S> {
    client: Arc<Client>,
    // The task ends with the last watcher.
    _watched: Arc<Watched<S>>,
    views: watch::Receiver<View<S>>,
}

impl<S: Clone + Send + Sync> Watcher<S> {
    pub(super) async fn open(client: &Arc<Client>, watched: Arc<Watched<S>>) -> Result<Self> {
        let mut views = watched.views();
        let read = async {
            let read = views.wait_for(|view| !matches!(view, View::Unread)).await;
            read.map_err(|_| Error::closed()).and_then(|view| seen(&view).map(drop))
        };
        let within = client.request_timeout.saturating_mul(2);
        let late = || {
            Error::new(
                ErrorKind::Unavailable,
                "the server did not answer the read or the watch within twice the request timeout",
            )
        };
        let first = async { tokio::time::timeout(within, read).await.unwrap_or_else(|_| Err(late())) };
        client.serve(first).await?;
        Ok(Self { client: Arc::clone(client), _watched: watched, views })
    }

    pub(super) fn latest(&self) -> Result<S> {
        seen(&self.views.borrow())
    }

    pub(super) fn is_current(&self) -> bool {
        matches!(*self.views.borrow(), View::Read(_, true))
    }

    pub(super) async fn next<T: Clone + PartialEq>(
        &mut self,
        answered: &mut Option<T>,
        of: impl Fn(&S) -> Result<T>,
    ) -> Result<T> {
        let is_new = |view: &View<S>| match (view, &*answered) {
            (View::Unread, _) => false,
            (View::Read(state, _), Some(answered)) => of(state).ok().as_ref() != Some(answered),
            (View::Read(..), None) | (View::Ended(_), _) => true,
        };
        let next = async {
            let view = self.views.wait_for(is_new).await.map_err(|_| Error::closed())?;
            seen(&view).and_then(|state| of(&state))
        };
        let next = self.client.serve(next).await?;
        *answered = Some(next.clone());
        Ok(next)
    }

    /// Returns the state, so that [`news`](Self::news) waits for later ones.
    pub(super) fn glance(&mut self) -> Result<S> {
        seen(&self.views.borrow_and_update())
    }

    pub(super) async fn news(&mut self) -> Result<()> {
        let news = self.views.changed();
        self.client.serve(async { news.await.map_err(|_| Error::closed()) }).await
    }
}

fn seen<S: Clone>(view: &View<S>) -> Result<S> {
    match view {
        View::Read(state, _) => Ok(state.clone()),
        View::Ended(error) => Err(error.clone()),
        View::Unread => Err(Error::closed()),
    }
}
