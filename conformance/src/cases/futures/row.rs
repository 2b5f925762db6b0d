//! A row of the table, and the macros that write one.

use futures_util::future::BoxFuture;

use super::site::Site;
use crate::adapter::Adapter;

/// A future that a user can await.
pub(crate) struct PublicFuture {
    pub(crate) name: &'static str,
    /// The adapter of its queue.
    pub(crate) adapter: Adapter,
    /// Whether it waits while another holds: it is dropped at its await points then, too.
    pub(crate) waits: bool,
    /// Prepares the state, and creates the future.
    pub(crate) prepare: for<'a> fn(&'a Site<'_>) -> BoxFuture<'a, Prepared>,
}

/// The future, with all done that comes before it.
pub(crate) struct Prepared(pub(crate) BoxFuture<'static, ()>);

/// One row: `name`, in the queue of which recipe, whether it waits, what makes it.
macro_rules! future {
    ($name:expr, $adapter:ident, $waits:literal, |$site:ident| $body:expr) => {
        PublicFuture {
            name: $name,
            adapter: Adapter::$adapter,
            waits: $waits,
            prepare: |$site| Box::pin(async move { Prepared(Box::pin($body)) }),
        }
    };
}

/// Makes the future of a method from its receiver: its outcome, dropped.
macro_rules! dropping {
    ($receiver:expr, |$it:ident| $call:expr) => {{
        let $it = $receiver;
        async move {
            let _answer = $call.await.expect("answered");
        }
    }};
}

/// Rows that make the future of a method from its receiver. They begin with the field `waits` of all rows, and with
/// names for the site and the receiver.
macro_rules! futures {
    ($waits:literal; |$site:ident, $it:ident| $($name:literal $adapter:ident: $receiver:expr => $call:expr;)+) => {
        &[$(future!($name, $adapter, $waits, |$site| dropping!($receiver, |$it| $call))),+]
    };
}

/// The rows of a verb: it and its try, without options and with; and for a reentrant recipe, each by an owner.
macro_rules! verb {
    ($recipe:literal $adapter:ident $handle:ident $verb:ident $try:ident ($($extra:expr),*)) => {
        &[
            future!(concat!($recipe, "::", stringify!($verb)), $adapter, true, |site| {
                dropping!(site.$handle(), |it| it.$verb($($extra),*))
            }),
            future!(concat!($recipe, "::", stringify!($verb)), $adapter, true, |site| {
                dropping!(site.$handle(), |it| it.$verb($($extra),*).within(LATE).max_hold(LATE).label("other"))
            }),
            future!(concat!($recipe, "::", stringify!($try)), $adapter, true, |site| {
                dropping!(site.$handle(), |it| it.$try($($extra),*))
            }),
            future!("Acquire::with", $adapter, true, |site| {
                dropping!(site.$handle(), |it| it.$verb($($extra),*).with(async |_hold| tokio::task::yield_now().await))
            }),
        ]
    };
    ($recipe:literal $adapter:ident $handle:ident $verb:ident $try:ident by owner) => {
        &[
            future!(concat!($recipe, "::", stringify!($verb)), $adapter, true, |site| {
                dropping!(site.$handle().$verb().by(&site.owner), |it| it)
            }),
            future!(concat!($recipe, "::", stringify!($verb)), $adapter, true, |site| {
                dropping!(site.$handle().$verb().by(&site.owner).within(LATE).max_hold(LATE), |it| it)
            }),
            future!(concat!($recipe, "::", stringify!($try)), $adapter, true, |site| {
                dropping!(site.$handle().$try().by(&site.owner), |it| it)
            }),
        ]
    };
}

pub(super) use {dropping, future, futures, verb};
