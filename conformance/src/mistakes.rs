//! Compares the guide's tables of mistakes with errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_core::backend::LAYOUT;
use latchwork_core::{Config, Connector, Error, ErrorKind, Move, MoveConfig, connect};

/// The rows still to compare: mistake, kind of error, part of its text.
#[derive(Debug)]
pub struct Mistakes(BTreeMap<&'static str, [&'static str; 2]>);

impl Mistakes {
    /// Reads the only table under a heading of a page.
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

    /// Asserts that the error of a mistake equals its row.
    pub fn made(&mut self, mistake: &str, error: &Error) {
        let [kind, says] =
            self.0.remove(mistake).unwrap_or_else(|| panic!("the guide's table has no row for: {mistake}"));
        assert_eq!(kind_of(error), kind, "{mistake}: {error}");
        assert!(error.to_string().contains(says), "{mistake}: {error}");
    }

    /// Asserts that all rows were compared.
    pub fn all_made(self) {
        assert!(self.0.is_empty(), "no test makes the mistakes of these rows of the guide: {:?}", self.0);
    }
}

/// Asserts that an error contains these words, and not the tests' password.
pub fn says(error: &Error, words: &[&str]) {
    println!("{error}");
    let text = format!("{error} {error:#?}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
    assert!(!text.contains("hunter2"), "{text}");
}

/// Makes each mistake of the table about namespaces.
pub async fn namespaces_are_named(mut table: Mistakes, connector: Arc<dyn Connector>, config: &Config) {
    let connectors = [connector];
    let beside = |name: &str| {
        let mut config = config.clone();
        config.namespace.push_str(name);
        config
    };
    let refused =
        async |config: &Config| connect(&connectors, config).await.expect_err("the connect must be refused");

    let stamped = beside("-stamped");
    let newer = connect(&connectors, &stamped.clone().as_of_layout(LAYOUT + 1)).await;
    let newer = newer.expect("the first client connects");
    table.made("the data format (layout) is newer than this build", &refused(&stamped).await);
    newer.close().await.expect("closed");

    let sides = MoveConfig::new(beside("-from"), beside("-to"), "m");
    let the_move = Move::connect(&connectors, &sides).await.expect("connected");
    let participant = connect(&connectors, &Config::of_move(sides.clone())).await.expect("it takes part");
    the_move.start(|_| {}).await.expect("no client prevents the start");
    table.made(
        "the namespace is moving to another server, and the URL is not a `moving:` URL",
        &refused(&sides.from).await,
    );
    table.made(
        "the namespace is the target of an unfinished move, and the URL is not a `moving:` URL",
        &refused(&sides.to).await,
    );
    the_move.run(|_| {}).await.expect("the member acknowledges");
    participant.close().await.expect("closed");
    the_move.finish().await.expect("no client takes part");
    table.made("the namespace has moved or is retired", &refused(&sides.from).await);
    the_move.close().await.expect("closed");
    table.all_made();
}

fn kind_of(error: &Error) -> String {
    match error.kind() {
        ErrorKind::InvalidArgument { name } => format!("`InvalidArgument` ({name})"),
        ErrorKind::Forbidden => "`Forbidden`".to_owned(),
        ErrorKind::WrongServer => "`WrongServer`".to_owned(),
        other => format!("`{other:?}`"),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use latchwork_core::backend::Backend;
    use latchwork_core::{Result, check};

    use super::*;

    const PAGE: &str = include_str!("../../src/guide/connect_errors.md");

    #[test]
    fn each_url_mistake_gives_the_documented_error() {
        let mut table = Mistakes::of(PAGE, "## When a URL is wrong");
        for (mistake, url) in [
            ("an option that the backend does not have", "redis://h?colour=red"),
            ("an option that is given twice", "redis://h?ttl=5s&ttl=6s"),
            ("an option of another backend", "etcd://h?strict=true"),
            ("a duration without a unit", "redis://h?ttl=10"),
            ("a TTL below 1 s or above 1 h", "redis://h?ttl=500ms"),
            ("a `+` in an option", "redis://h?label=an+op"),
            ("a host without a name", "zookeeper://a,,b"),
            ("Sentinels without a service", "redis-sentinel://a,b"),
            ("a move without its other side", "moving:?from=redis://h&move=m"),
        ] {
            let connectors = [("redis", &["strict"][..]), ("etcd", &[])];
            let connectors = connectors.map(|(name, options)| Arc::new(Declares(name, options)) as _);
            let checked = Config::from_url(url).and_then(|config| check(&connectors, &config));
            table.made(mistake, &checked.expect_err(url));
        }
        table.all_made();
    }

    #[derive(Debug)]
    struct Declares(&'static str, &'static [&'static str]);

    #[async_trait]
    impl Connector for Declares {
        fn name(&self) -> &'static str {
            self.0
        }

        fn options(&self) -> &'static [&'static str] {
            self.1
        }

        fn validate(&self, _config: &Config) -> Result<()> {
            Ok(())
        }

        async fn connect(&self, _config: &Config) -> Result<Arc<dyn Backend>> {
            unreachable!("no test connects to it")
        }
    }

    #[cfg(all(
        feature = "redis",
        feature = "zookeeper",
        feature = "etcd",
        feature = "tls",
        feature = "sasl"
    ))]
    mod build {
        use std::collections::BTreeSet;

        use async_trait::async_trait;
        use latchwork_core::backend::Backend;
        use latchwork_core::{Result, connect_lazy};

        use super::*;

        #[derive(Clone, Copy, Debug)]
        struct Build {
            redis: bool,
            zookeeper: bool,
            etcd: bool,
            tls: bool,
            sasl: bool,
        }

        impl Build {
            fn all() -> impl Iterator<Item = Self> {
                (0..1 << 5).map(|bits| {
                    let has = |bit: u32| bits & (1 << bit) != 0;
                    Self { redis: has(0), zookeeper: has(1), etcd: has(2), tls: has(3), sasl: has(4) }
                })
            }

            fn connectors(self) -> Vec<Arc<dyn Connector>> {
                let zookeeper = match self.sasl {
                    true => latchwork_zookeeper::connector(),
                    false => latchwork_zookeeper::connector_without_sasl(),
                };
                let backends = [
                    (self.redis, latchwork_redis::connector()),
                    (self.zookeeper, zookeeper),
                    (self.etcd, latchwork_etcd::connector()),
                ];
                let built = backends.into_iter().filter(|(built, _)| *built).map(|(_, connector)| connector);
                match self.tls {
                    true => built.collect(),
                    false => built.map(|connector| Arc::new(WithoutTls(connector)) as _).collect(),
                }
            }

            /// `None`: this build accepts the URL.
            fn rows(self) -> [(&'static str, Option<&'static str>); 8] {
                let lacks = |has: bool| (!has).then_some("the feature of the backend");
                let tls = |has: bool| lacks(has).or((!self.tls).then_some("`tls`, and the URL asks for TLS"));
                let sasl = (!self.sasl).then_some("`sasl`, and the URL has `sasl=true`");
                [
                    ("redis://h", lacks(self.redis)),
                    ("rediss://h", tls(self.redis)),
                    ("zookeeper://h", lacks(self.zookeeper)),
                    ("zookeeper+tls://h", tls(self.zookeeper)),
                    ("zookeeper://app:secret@h?sasl=true", lacks(self.zookeeper).or(sasl)),
                    ("etcd://h", lacks(self.etcd)),
                    ("etcd+tls://h", tls(self.etcd)),
                    ("redis-cluster://h", lacks(self.redis)),
                ]
            }
        }

        #[derive(Debug)]
        struct WithoutTls(Arc<dyn Connector>);

        #[async_trait]
        impl Connector for WithoutTls {
            fn name(&self) -> &'static str {
                self.0.name()
            }

            fn options(&self) -> &'static [&'static str] {
                self.0.options()
            }

            fn validate(&self, config: &Config) -> Result<()> {
                self.0.validate(config)
            }

            async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
                self.0.connect(config).await
            }
        }

        #[tokio::test]
        async fn a_build_names_the_feature_that_it_lacks() {
            let mut made = BTreeSet::new();
            for build in Build::all() {
                for (url, lacks) in build.rows() {
                    let config = Config::from_url(url).expect(url);
                    match (connect_lazy(&build.connectors(), &config), lacks) {
                        (Err(error), Some(row)) => {
                            table().made(row, &error);
                            made.insert(row);
                        }
                        (answer, lacks) => {
                            assert!(answer.is_ok() && lacks.is_none(), "{url} of {build:?}: {answer:?}");
                        }
                    }
                }
            }
            assert!(table().0.keys().eq(made.iter()), "some build makes each row of the guide: {made:?}");
        }

        fn table() -> Mistakes {
            Mistakes::of(PAGE, "## When the build lacks a feature")
        }
    }

    #[tokio::test]
    async fn each_namespace_mistake_gives_the_documented_error() {
        let table = Mistakes::of(PAGE, "## When a namespace is in the way");
        let config = Config::from_url("memory://namespaces-in-the-way").expect("a good URL");
        namespaces_are_named(table, latchwork_core::memory::connector(), &config).await;
    }
}
