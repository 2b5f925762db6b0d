//! The guide's tables of mistakes, beside the errors that a test makes.

use std::collections::BTreeMap;

use latchwork_core::{Error, ErrorKind};

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
    use latchwork_core::Config;

    use super::Mistakes;

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        let mut table = Mistakes::of(include_str!("../../src/guide/connecting.md"), "## When a URL is wrong");
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
}
