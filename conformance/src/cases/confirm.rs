//! NODE-CONFIRM: acquisitions that ask for replicas.

use latchwork_core::ErrorKind;

use crate::actions::{acquire_and_release, listing};
use crate::bounds::{LONG_TTL, NOISE};
use crate::case::cases;
use crate::waits::{soon, until, within};

const NEVER: u32 = 1_000;

cases! {
    "NODE-CONFIRM" adapted =>
    /// an acquisition that too few replicas confirm is released and fails; on a backend without replicas, the option is
    /// refused by name
    async fn node_confirm_is_demanded_or_refused(context) {
        let mut config = context.config(LONG_TTL);
        config.request_timeout = 2 * NOISE;
        let (client, other) = (context.client_with(&config).await, context.client().await);
        let (here, there) = (context.mutex(&client, "a"), context.mutex(&other, "a"));
        let error = within(4 * NOISE + context.late(), "the answer", here.acquire().min_replicas(NEVER)).await.map(drop).expect_err("nobody confirmed it");
        match context.testbed.capabilities().confirms_on_replicas {
            true => assert!(error.kind() == ErrorKind::Unavailable && error.is_retryable(), "{error}"),
            false => {
                let refusal = ErrorKind::Unsupported { capability: "confirms_on_replicas" };
                assert_eq!(error.kind(), refusal, "{error}");
            }
        }
        assert_eq!(error.key(), Some("a"));
        until("its node is gone", || async { listing(&there).await.is_empty() }).await;
        acquire_and_release(&there).await;
        soon("a plain one", here.acquire().min_replicas(0)).await.expect("acquired").release().await.expect("released");
    }
}
