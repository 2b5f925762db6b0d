use super::fields::{Config, MOVING, MoveConfig};
use super::options::decode;
use crate::error::{Error, Result};
use crate::label::check_visible;

/// The name is a part of keys.
const MAX_NAME_BYTES: usize = 200;

impl MoveConfig {
    /// Creates a move with this name.
    pub fn new(from: Config, to: Config, name: impl Into<String>) -> Self {
        Self { from, to, name: name.into() }
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES {
            let why = format!("has {} bytes, 1 to {MAX_NAME_BYTES} are allowed", self.name.len());
            return Err(Error::invalid("move", why));
        }
        check_visible("move", &self.name)?;
        for (argument, side) in [("from", &self.from), ("to", &self.to)] {
            if side.moving.is_some() {
                return Err(Error::invalid(
                    argument,
                    "is itself the URL of a move: give the URL of one coordinator",
                ));
            }
            side.validate()
                .map_err(|error| Error::invalid(argument, "is not a valid configuration").because(error))?;
        }
        match self.from.is_one_place_with(&self.to) {
            true => Err(Error::invalid(
                "to",
                "is the same namespace of the same coordinator as `from`: give another server or namespace",
            )),
            false => Ok(()),
        }
    }
}

impl Config {
    /// Creates the configuration of a client that takes part in a move.
    pub fn of_move(sides: MoveConfig) -> Self {
        Self { moving: Some(Box::new(sides)), ..Self::new(MOVING) }
    }

    pub(super) fn of_moving(rest: &str) -> Result<Self> {
        let query = rest.strip_prefix("//").unwrap_or(rest);
        let shape = || Error::invalid("url", "expected moving:?from=<URL>&to=<URL>&move=<name>");
        let query = query.strip_prefix('?').ok_or_else(shape)?;
        let (mut from, mut to, mut name, mut label, mut own_name) = (None, None, None, None, None);
        for pair in query.split('&') {
            let (option, value) = pair.split_once('=').ok_or_else(shape)?;
            let (argument, slot) = match option {
                "from" => ("from", &mut from),
                "to" => ("to", &mut to),
                "move" => ("move", &mut name),
                "label" => ("label", &mut label),
                "name" => ("name", &mut own_name),
                other => {
                    let why = format!("a move has no option {other:?}: inside the two URLs, write & as %26");
                    return Err(Error::invalid("url", why));
                }
            };
            if value.contains('+') {
                return Err(Error::invalid(argument, "contains a +: write %2B, or %20 for a space"));
            }
            if slot.replace(decode(argument, value)?).is_some() {
                return Err(Error::invalid(
                    "url",
                    format!("the option {option:?} is given twice: delete one of them"),
                ));
            }
        }
        let side = |argument, url: Option<String>| {
            let url = url.ok_or_else(|| Error::invalid(argument, "is missing").because(shape()))?;
            Self::from_url(&url)
                .map_err(|error| Error::invalid(argument, "is not a valid URL").because(error))
        };
        let (from, to) = (side("from", from)?, side("to", to)?);
        let name = name.ok_or_else(|| Error::invalid("move", "is missing").because(shape()))?;
        let config = Self { label, name: own_name, ..Self::of_move(MoveConfig::new(from, to, name)) };
        config.validate()?;
        Ok(config)
    }

    /// Compares the texts of the configurations only.
    fn is_one_place_with(&self, other: &Self) -> bool {
        let place = |config: &Self| {
            let mut hosts = config.hosts.clone();
            hosts.sort_unstable();
            (config.backend.clone(), hosts, config.path.clone(), config.namespace.clone())
        };
        // A memory store without a name is a new store at each connect.
        place(self) == place(other) && !(self.backend == "memory" && self.hosts.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_urls_may_have_options() {
        let url =
            "moving:?from=redis://u:p%2526@old/2?ttl=5s%26namespace=billing&to=memory://new&move=m&label=me";
        let config = Config::from_url(url).expect("a good URL");
        let sides = config.moving.as_deref().expect("a move");
        assert_eq!((sides.from.ttl.as_secs(), &*sides.from.namespace), (5, "billing"));
        assert_eq!(sides.from.password.as_ref().map(|password| password.expose()), Some("p&"));
        assert_eq!((&*sides.to.hosts[0], &*sides.name, config.label.as_deref()), ("new", "m", Some("me")));
        let json =
            serde_json::to_string(&Config::from_url("moving:?from=memory://a&to=memory://b&move=m").unwrap());
        let again: Config = serde_json::from_str(&json.unwrap()).unwrap();
        assert_eq!(again.moving.expect("a move").from.hosts, ["a"]);
    }

    #[test]
    fn bad_move_url_error_names_the_argument() {
        for (query, argument, says) in [
            ("?to=memory://b&move=m", "from", "missing"),
            ("?from=memory://a&move=m", "to", "missing"),
            ("?from=memory://a&to=memory://b", "move", "missing"),
            ("?from=memory://a&to=memory://b&move=", "move", "0 bytes"),
            ("?from=redis://u:secret@a:port&to=memory://b&move=m", "from", "not a valid URL"),
            ("?from=memory://a&to=memory://a&move=m", "to", "the same namespace"),
            ("?from=memory://a?namespace=x&to=memory://b&namespace=y&move=m", "url", "namespace"),
            ("?from=memory://a&from=memory://c&to=memory://b&move=m", "url", "twice"),
            ("?from=moving:?from=memory://a%2526to=memory://b%2526move=n&to=memory://c&move=m", "from", ""),
            ("memory://a", "url", "expected moving:?"),
        ] {
            let error = Config::from_url(&format!("moving:{query}")).expect_err(query);
            assert_eq!(error.argument(), Some(argument), "{query}: {error}");
            assert!(error.to_string().contains(says), "{query}: {error}");
            assert!(!format!("{error:?} {error}").contains("secret"), "{error}");
        }
        assert!(Config::from_url("moving:?from=memory://a&to=memory://a?namespace=b&move=m").is_ok());
        assert!(Config::from_url("moving://?from=memory://&to=memory://&move=m").is_ok());
    }
}
