use latchwork_core::memory::{self, Link, Memory};
use latchwork_core::{Clock, Config, Coordinator, Error, ErrorKind, Result, connect};

pub(crate) struct Clients {
    pub(crate) store: Memory,
    pub(crate) config: Config,
    pub(crate) client: Coordinator,
    /// Of the first client.
    pub(crate) link: Link,
    pub(crate) other: Coordinator,
}

pub(crate) fn clients() -> Clients {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let (client, link) = connected_to(&store);
    let (other, _) = connected_to(&store);
    Clients { store, config, client, link, other }
}

pub(crate) fn connected_to(store: &Memory) -> (Coordinator, Link) {
    store.connect(&Config::new("memory")).expect("connected")
}

pub(crate) fn connected() -> (Coordinator, Link) {
    connected_to(&Memory::new(Clock::tokio()))
}

/// Connected as a service connects.
pub(crate) async fn private() -> Coordinator {
    let config = Config::from_url("memory://").expect("a good URL");
    connect(&[memory::connector()], &config).await.expect("connected")
}

#[track_caller]
pub(crate) fn fails<T>(answer: Result<T>, kind: ErrorKind, why: &str) -> Error {
    let error = answer.map(drop).expect_err(why);
    assert_eq!(error.kind(), kind, "{error}");
    error
}
