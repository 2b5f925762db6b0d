use tokio::sync::Notify;

/// A notification must follow each change that `found` reads.
pub(crate) async fn until<T>(changed: &Notify, mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        let notified = changed.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if let Some(found) = found() {
            return found;
        }
        notified.await;
    }
}
