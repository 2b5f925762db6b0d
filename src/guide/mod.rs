//! The guide: choose a coordinator, use the recipes, protect data, and operate the service. It has
//! documentation only.
//!
//! | page | task |
//! |---|---|
//! | [`choosing`] | choose a coordinator: guarantees, bounds |
//! | [`redis_limits`], [`zookeeper_limits`], [`etcd_limits`] | the limits of each backend |
//! | [`versions`] | tested versions of the servers |
//! | [`connecting`] | connect: cargo features, URLs and their options, settings files |
//! | [`connecting_securely`] | logins, SASL, TLS |
//! | [`connect_errors`], [`tls_errors`] | each mistake at connect, with its error |
//! | [`promises`] | what a lock over a lease can and cannot promise, and what you must do about it |
//! | [`fencing`] | how a database refuses a stale holder, with full statements |
//! | [`recipes`] | which recipe to use, and how: work under a lock, owners, read/write locks, semaphores, jobs of many hosts; how a job ends |
//! | [`coming_from`] | translate code that uses Redisson, Curator, kazoo, etcd or Redlock |
//! | [`testing`] | test your service with simulated time and planned faults |
//! | [`errors`] | every error and every reason of a loss, with its remedy |
//! | [`sharing`] | share a lock with Curator or `etcdctl` |
//! | [`trust`] | give each application the least rights |
//! | [`forgery`] | the effect of forged messages and foreign queue entries |
//! | [`observing`] | every event and span |
//! | [`metrics`] | every metric and its labels |
//! | [`observing_moves`] | events and metrics of moves |
//! | [`on_call`] | symptoms, causes, commands; alerts; find a holder and force a release |
//! | [`outages`] | causes of a broken connection, health checks, how long calls take |
//! | [`on_call_servers`] | holders, limits and values with the server's own client |
//! | [`rolling_upgrades`] | connected clients, newer builds, a namespace that has moved |
//! | [`moving`] | move to another coordinator while locks are held |
//! | [`left_on_servers`] | data that can remain on a server, and the cost of idle keys |
//! | [`own_backend`] | write your own backend, and test it with one call |
//! | [`glossary`] | terms of this guide |
//!
//! If a page states a guarantee, it names the test that checks it. A name like
//! `node_death_in_mid_queue` is a case of the conformance suite, which runs each case on every
//! backend: `./test --backend redis` shows them.

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("redis_limits.md")]
pub mod redis_limits {}

#[doc = include_str!("zookeeper_limits.md")]
pub mod zookeeper_limits {}

#[doc = include_str!("etcd_limits.md")]
pub mod etcd_limits {}

#[doc = include_str!("versions.md")]
pub mod versions {}

#[doc = include_str!("connecting.md")]
pub mod connecting {}

#[doc = include_str!("connecting_securely.md")]
pub mod connecting_securely {}

#[doc = include_str!("connect_errors.md")]
pub mod connect_errors {}

#[doc = include_str!("tls_errors.md")]
pub mod tls_errors {}

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

#[doc = include_str!("forgery.md")]
pub mod forgery {}

#[doc = include_str!("observing.md")]
pub mod observing {}

#[doc = include_str!("metrics.md")]
pub mod metrics {}

#[doc = include_str!("on_call.md")]
pub mod on_call {}

#[doc = include_str!("outages.md")]
// The picture `failover.png` inside the page, because rustdoc has no path to a file.
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

#[doc = include_str!("glossary.md")]
pub mod glossary {}

// The page shows the example's sources as text. Tests compile and run the example itself.
#[doc = include_str!("own_backend.md")]
#[doc = "# The client: `backend.rs`\n```text"]
#[doc = include_str!("../../examples/own_backend/backend.rs")]
#[doc = "```\n# The server: `table.rs`\n```text"]
#[doc = include_str!("../../examples/own_backend/table.rs")]
#[doc = "```"]
pub mod own_backend {}
