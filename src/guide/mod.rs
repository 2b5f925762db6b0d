//! The guide: what to choose, what is promised, and what to do when it goes wrong. Pages of
//! documentation, no code.
//!
//! | page | answers |
//! |---|---|
//! | [`choosing`] | what each backend promises, and its limits |
//! | [`connecting`] | cargo features, URLs and their options, settings files, connect and close |
//! | [`promises`] | what a lock over a lease can and cannot promise, and what you must do about it |
//! | [`fencing`] | how a database refuses a stale holder, with full statements |
//! | [`recipes`] | which recipe to use, and how: work under a lock, owners, read/write locks, semaphores, jobs of many hosts; how a job ends |
//! | [`coming_from`] | the words of Redisson, Curator, kazoo, etcd and Redlock, and what they are called here |
//! | [`testing`] | testing your own service, with simulated time and planned faults |
//! | [`errors`] | every error and every reason of loss, and what to do |
//! | [`sharing`] | locks shared with Curator and `etcdctl`, and programs that cannot share them |
//! | [`trust`] | what clients must trust each other with, and the access control that enforces it |
//! | [`observing`] | every event and span |
//! | [`metrics`] | every metric and its labels |
//! | [`on_call`] | symptoms, causes, commands; alerts; how to find a holder and force a release |
//! | [`outages`] | causes of a broken connection, health checks, how long calls take |
//! | [`on_call_servers`] | holders, limits and values with the server's own client |
//! | [`rolling_upgrades`] | connected clients, newer builds, a namespace that has moved |
//! | [`moving`] | moving to another coordinator while locks are held |
//! | [`left_on_servers`] | what may stay on a server, and what idle keys cost |
//! | [`own_backend`] | a backend of your own, and the one call that tests it |
//!
//! Where a page states a guarantee, it names the test that shows it. Names of cases
//! (`node_death_in_mid_queue`) are those of the conformance suite, which runs each on every
//! backend: `./test --backend redis` shows them.

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("connecting.md")]
pub mod connecting {}

#[doc = include_str!("promises.md")]
pub mod promises {}

#[doc = include_str!("fencing.md")]
pub mod fencing {}

#[doc = include_str!("recipes.md")]
pub mod recipes {}

#[doc = include_str!("coming_from.md")]
pub mod coming_from {}

#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("errors.md")]
pub mod errors {}

#[doc = include_str!("sharing.md")]
pub mod sharing {}

#[doc = include_str!("trust.md")]
pub mod trust {}

#[doc = include_str!("observing.md")]
pub mod observing {}

#[doc = include_str!("metrics.md")]
pub mod metrics {}

#[doc = include_str!("on_call.md")]
pub mod on_call {}

#[doc = include_str!("outages.md")]
// The picture `failover.png`, which a page of documentation cannot reach.
#[doc = include_str!("failover.html")]
pub mod outages {}

#[doc = include_str!("on_call_servers.md")]
pub mod on_call_servers {}

#[doc = include_str!("rolling_upgrades.md")]
pub mod rolling_upgrades {}

#[doc = include_str!("moving.md")]
pub mod moving {}

#[doc = include_str!("left_on_servers.md")]
pub mod left_on_servers {}

// The example's sources are shown as text; the example itself is compiled and tested.
#[doc = include_str!("own_backend.md")]
#[doc = "# The client: `backend.rs`\n```text"]
#[doc = include_str!("../../examples/own_backend/backend.rs")]
#[doc = "```\n# The server: `table.rs`\n```text"]
#[doc = include_str!("../../examples/own_backend/table.rs")]
#[doc = "```"]
pub mod own_backend {}
