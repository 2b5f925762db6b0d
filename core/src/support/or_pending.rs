use std::future::{pending, ready};

use futures_util::FutureExt;
use futures_util::future::{Either, OptionFuture};

/// Waits for this future, or for ever without one: for a branch of `tokio::select!`. It is hardly larger than
/// the future, since each waiter has one.
pub fn or_pending<F: Future>(future: Option<F>) -> impl Future<Output = F::Output> {
    OptionFuture::from(future).then(|output| match output {
        Some(output) => Either::Left(ready(output)),
        None => Either::Right(pending()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_not_larger_than_two_of_its_futures() {
        let future = async {
            let kept = [0_u8; 1000];
            ready(()).await;
            kept.len()
        };
        let alone = size_of_val(&future);
        assert!(size_of_val(&or_pending(Some(future))) < 2 * alone);
    }
}
