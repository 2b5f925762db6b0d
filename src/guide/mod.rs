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
//! | [`promises`] | the limits of a lock with a lease, and how to protect your data |
//! | [`fencing`] | make a database refuse the writes of a stale holder, with full statements |
//! | [`recipes`] | which recipe to use; requests and their options; threads without a runtime |
//! | [`locks`] | work under a mutex or a read/write lock, owners, and how a job ends |
//! | [`semaphores`] | limit how much work runs at the same time |
//! | [`jobs`] | run a job on one of many hosts |
//! | [`many_locks`] | several locks as one, and one lock on a majority of servers |
//! | [`values`] | shared values, counters, unique ids and latches |
//! | [`leaders`] | elections, groups and barriers |
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
//! | [`moving`] | move locks and values to another coordinator while services use them |
//! | [`during_a_move`] | the cost and delays of a move, its effect on queues and values, and a move that does not go on |
//! | [`left_on_servers`] | data that remains on a server, and the cost of idle keys |
//! | [`own_backend`] | write a backend for another server, and test it with one call |
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

#[doc = include_str!("locks.md")]
pub mod locks {}

#[doc = include_str!("semaphores.md")]
pub mod semaphores {}

#[doc = include_str!("jobs.md")]
pub mod jobs {}

#[doc = include_str!("many_locks.md")]
pub mod many_locks {}

#[doc = include_str!("values.md")]
pub mod values {}

#[doc = include_str!("leaders.md")]
pub mod leaders {}

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

#[doc = include_str!("observing_moves.md")]
pub mod observing_moves {}

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

#[doc = include_str!("during_a_move.md")]
pub mod during_a_move {}

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
