use clap::Args;
use latchwork::{Config, MoveConfig};

use crate::failure::Failure;
use crate::settings::{Common, at_url};

#[derive(Debug, Args)]
pub(super) struct Sides {
    /// The old coordinator, which has the locks
    #[arg(long, global = true, value_name = "URL", requires = "to", requires = "name")]
    from: Option<String>,
    /// The new coordinator
    #[arg(long, global = true, value_name = "URL", requires = "from", requires = "name")]
    to: Option<String>,
    /// The name of the move, as in the URL of the services
    #[arg(
        long = "move",
        id = "name",
        global = true,
        value_name = "NAME",
        requires = "from",
        requires = "to"
    )]
    name: Option<String>,
}

impl Sides {
    /// By its three options, or by the configured `moving:` URL.
    pub(super) fn config(&self, common: &Common) -> Result<MoveConfig, Failure> {
        if let (Some(from), Some(to), Some(name)) = (&self.from, &self.to, &self.name) {
            let sides = MoveConfig::new(at_url(from)?, at_url(to)?, name.as_str());
            Config::of_move(sides.clone()).validate().map_err(Failure::from)?;
            return Ok(sides);
        }
        let next = "give --from, --to and --move, or the URL of the services: \
                    moving:?from=<URL>&to=<URL>&move=<name>";
        let config = common.coordinator().map_err(|failure| {
            let (what, _) = failure.into_parts();
            Failure::usage(what).next(next)
        })?;
        match config.moving {
            Some(sides) => Ok(*sides),
            None => Err(Failure::usage("the URL names one coordinator, but a move has two").next(next)),
        }
    }
}
