//! The guide's tables of mistakes, beside the errors that a test makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_core::registry::LAYOUT;
use latchwork_core::{Config, Connector, Error, ErrorKind, Move, MoveConfig, connect};

/// The rows of a table that no error was held against yet: what is wrong, the kind of error, what it says.
#[derive(Debug)]
pub struct Mistakes(BTreeMap<&'static str, [&'static str; 2]>);

impl Mistakes {
    /// The table of a page that stands under this heading, alone.
    ///
    /// # Panics
    /// When there is none, of three columns.
    pub fn of(page: &'static str, heading: &str) -> Self {
        let (_, section) = page.split_once(&format!("\n{heading}\n")).expect("the page has the heading");
        let section = section.split("\n#").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1).map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [mistake, kind, says] = cells.try_into().expect("three cells");
            (mistake, [kind, says])
        });
        let rows: BTreeMap<_, _> = rows.collect();
        assert!(!rows.is_empty(), "no table under {heading}");
        Self(rows)
    }

    /// Checks that the error of a mistake is what the table says.
    ///
    /// # Panics
    /// When it is not, or when the table has no such row (any more).
    pub fn made(&mut self, mistake: &str, error: &Error) {
        let [kind, says] = self.0.remove(mistake).unwrap_or_else(|| panic!("not in the guide: {mistake}"));
        assert_eq!(kind_of(error), kind, "{mistake}: {error}");
        assert!(error.to_string().contains(says), "{mistake}: {error}");
    }

    /// Checks that each row was made.
    ///
    /// # Panics
    /// When one was not.
    pub fn all_made(self) {
        assert!(self.0.is_empty(), "no test makes these rows of the guide: {:?}", self.0);
    }
}

/// Makes each row of the table about namespaces, in namespaces beside that of `config`.
///
/// # Panics
/// When an error is not what the table says, when a row is left, or when the server does not answer.
pub async fn namespaces_are_named(mut table: Mistakes, connector: Arc<dyn Connector>, config: &Config) {
    let connectors = [connector];
    let beside = |name: &str| {
        let mut config = config.clone();
        config.namespace.push_str(name);
        config
    };
    let refused = async |config: &Config| connect(&connectors, config).await.expect_err("it is let in");

    let stamped = beside("-stamped");
    let newer = connect(&connectors, &stamped.clone().as_of_layout(LAYOUT + 1)).await;
    let newer = newer.expect("the first one there");
    table.made("its layout is newer than the build's", &refused(&stamped).await);
    newer.close().await.expect("closed");

    let sides = MoveConfig::new(beside("-from"), beside("-to"), "m");
    let the_move = Move::connect(&connectors, &sides).await.expect("connected");
    the_move.start(|_| {}).await.expect("nobody is in the way");
    table.made("it moves elsewhere, and the URL is not that of the move", &refused(&sides.from).await);
    table.made(
        "a move that is not done comes to it, and the URL is not that of the move",
        &refused(&sides.to).await,
    );
    the_move.run(|_| {}).await.expect("nobody is waited for");
    the_move.finish().await.expect("nobody takes part");
    table.made(
        "it has moved: the move is finished, or an operator has retired it",
        &refused(&sides.from).await,
    );
    the_move.close().await.expect("closed");
    table.all_made();
}

/// The name of a kind of error, with the argument that it names.
fn kind_of(error: &Error) -> String {
    match error.kind() {
        ErrorKind::InvalidArgument { name } => format!("`InvalidArgument` ({name})"),
        ErrorKind::Forbidden { .. } => "`Forbidden`".to_owned(),
        ErrorKind::WrongServer { .. } => "`WrongServer`".to_owned(),
        other => format!("`{other:?}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../src/guide/connecting.md");

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        let mut table = Mistakes::of(PAGE, "## When a URL is wrong");
        for (mistake, url) in [
            ("an option that nobody knows", "redis://h?colour=red"),
            ("an option that is given twice", "redis://h?ttl=5s&ttl=6s"),
            ("an option of another backend", "etcd://h?strict=true"),
            ("a time without a unit", "redis://h?ttl=10"),
            ("a TTL below 1 s or above 1 h", "redis://h?ttl=500ms"),
            ("a `+` in an option", "redis://h?label=an+op"),
            ("a host without a name", "zookeeper://a,,b"),
            ("Sentinels without a service", "redis-sentinel://a,b"),
            ("a move without its other side", "moving:?from=redis://h&move=m"),
        ] {
            table.made(mistake, &Config::from_url(url).expect_err(url));
        }
        table.all_made();
    }

    fn connectors() -> Vec<Arc<dyn Connector>> {
        vec![
            #[cfg(feature = "redis")]
            latchwork_redis::connector(),
            #[cfg(feature = "zookeeper")]
            latchwork_zookeeper::connector(),
        ]
    }

    #[tokio::test]
    #[cfg_attr(
        any(
            not(all(feature = "redis", feature = "zookeeper")),
            any(feature = "etcd", feature = "tls", feature = "sasl"),
        ),
        ignore = "for a build of Redis and ZooKeeper without TLS and SASL, which .ci/run makes"
    )]
    async fn what_the_build_lacks_is_named() {
        let mut table = Mistakes::of(PAGE, "## When the build lacks a feature");
        for (mistake, url) in [
            ("the backend's own", "etcd://h"),
            ("`tls`, and the URL asks for TLS", "rediss://h"),
            ("`sasl`, and the URL has `sasl=true`", "zookeeper://app:secret@h?sasl=true"),
        ] {
            let config = Config::from_url(url).expect(url);
            table.made(mistake, &connect(&connectors(), &config).await.expect_err(url));
        }
        table.all_made();
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_namespace_is_named() {
        let table = Mistakes::of(PAGE, "## When a namespace is in the way");
        let config = Config::from_url("memory://namespaces-in-the-way").expect("a good URL");
        namespaces_are_named(table, latchwork_core::memory::connector(), &config).await;
    }
}
