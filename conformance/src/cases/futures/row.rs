use futures_util::future::BoxFuture;

use super::site::Site;
use crate::adapter::Adapter;

pub(crate) struct PublicFuture {
    pub(crate) name: &'static str,
    pub(crate) adapter: Adapter,
    /// A future that waits for a holder is dropped then, too.
    pub(crate) waits: bool,
    pub(crate) prepare: for<'a> fn(&'a Site<'_>) -> BoxFuture<'a, Prepared>,
}

pub(crate) struct Prepared(pub(crate) BoxFuture<'static, ()>);

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

macro_rules! dropping {
    ($receiver:expr, |$it:ident| $call:expr) => {{
        let $it = $receiver;
        async move {
            let _answer = $call.await.expect("answered");
        }
    }};
}

macro_rules! futures {
    ($waits:literal; |$site:ident, $it:ident| $($name:literal $adapter:ident: $receiver:expr => $call:expr;)+) => {
        &[$(future!($name, $adapter, $waits, |$site| dropping!($receiver, |$it| $call))),+]
    };
}

/// Each without and with options, and by an owner if the recipe has owners.
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
