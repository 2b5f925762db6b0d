//! A row of the table, and the macros that write one.

use futures_util::future::BoxFuture;

use super::site::Site;
use crate::adapter::Adapter;

/// A future that a user can await.
pub(crate) struct PublicFuture {
    pub(crate) name: &'static str,
    /// Whose queue it has to do with.
    pub(crate) adapter: Adapter,
    /// Whether it waits while another holds: it is dropped at its await points then, too.
    pub(crate) waits: bool,
    /// Does what comes before it, and makes it.
    pub(crate) prepare: for<'a> fn(&'a Site<'_>) -> BoxFuture<'a, Prepared>,
}

/// The future, with all done that comes before it.
pub(crate) struct Prepared(pub(crate) BoxFuture<'static, ()>);

/// One row: `name`, in the queue of which recipe, whether it waits, what makes it.
macro_rules! future {
    ($name:literal, $adapter:ident, $waits:literal, |$site:ident| $body:expr) => {
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

/// The nine rows of a verb, in the order of its grammar.
macro_rules! verb {
    ($recipe:literal $adapter:ident $handle:ident acquire($($extra:expr),*)) => {
        verb!($recipe $adapter $handle ($($extra),*) acquire acquire_within acquire_with try_acquire try_acquire_with
            acquire_as acquire_as_with try_acquire_as try_acquire_as_with)
    };
    ($recipe:literal $adapter:ident $handle:ident campaign($($extra:expr),*)) => {
        verb!($recipe $adapter $handle ($($extra),*) campaign campaign_within campaign_with try_campaign try_campaign_with
            campaign_as campaign_as_with try_campaign_as try_campaign_as_with)
    };
    ($recipe:literal $adapter:ident $handle:ident read()) => {
        verb!($recipe $adapter $handle () read read_within read_with try_read try_read_with
            read_as read_as_with try_read_as try_read_as_with)
    };
    ($recipe:literal $adapter:ident $handle:ident write()) => {
        verb!($recipe $adapter $handle () write write_within write_with try_write try_write_with
            write_as write_as_with try_write_as try_write_as_with)
    };
    ($recipe:literal $adapter:ident $handle:ident ($($extra:expr),*)
        $verb:ident $within:ident $with:ident $try:ident $try_with:ident
        $owner:ident $owner_with:ident $try_owner:ident $try_owner_with:ident) => {
        &[
            verb!(row $recipe, $adapter, $handle, $verb, |it, _owner| it.$verb($($extra),*)),
            verb!(row $recipe, $adapter, $handle, $within, |it, _owner| it.$within($($extra,)* LATE)),
            verb!(row $recipe, $adapter, $handle, $with, |it, _owner| it.$with($($extra,)* options())),
            verb!(row $recipe, $adapter, $handle, $try, |it, _owner| it.$try($($extra),*)),
            verb!(row $recipe, $adapter, $handle, $try_with, |it, _owner| it.$try_with($($extra,)* Acquire::new())),
            verb!(row $recipe, $adapter, $handle, $owner, |it, owner| it.$owner($($extra,)* &owner)),
            verb!(row $recipe, $adapter, $handle, $owner_with, |it, owner| {
                it.$owner_with($($extra,)* &owner, options())
            }),
            verb!(row $recipe, $adapter, $handle, $try_owner, |it, owner| it.$try_owner($($extra,)* &owner)),
            verb!(row $recipe, $adapter, $handle, $try_owner_with, |it, owner| {
                it.$try_owner_with($($extra,)* &owner, Acquire::new())
            }),
        ]
    };
    (row $recipe:literal, $adapter:ident, $handle:ident, $way:ident, |$it:ident, $owner:ident| $call:expr) => {
        PublicFuture {
            name: concat!($recipe, "::", stringify!($way)),
            adapter: Adapter::$adapter,
            waits: true,
            prepare: |site| {
                Box::pin(async move {
                    let ($it, $owner, scope) = (site.$handle(), site.owner.clone(), site.owner.clone());
                    // Only a reentrant mutex looks for the owner at hand.
                    let call = async move { drop($call.await.expect("answered")) };
                    Prepared(Box::pin(async move { scope.scope(call).await }))
                })
            },
        }
    };
}

pub(super) use {dropping, future, verb};
