mod client;
mod reason;
mod release;
mod snapshot;
pub(crate) mod table;
mod target;
mod watch;

use std::io;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::Args;
use clap::builder::styling::Style;
use latchwork::{Config, Coordinator};

use self::client::on_a_server;
pub(crate) use self::release::ReleaseOrder;
use self::snapshot::Snapshot;
use self::table::STYLES;
use self::target::Target;
use crate::exit::Ended;
use crate::failure::{Failure, Outcome};
use crate::settings::Common;
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct InspectOrder {
    /// KIND/KEY (mutex/backup), KIND/ (all of a kind), or a prefix of keys of any kind [default: all]
    what: Option<String>,
    /// Treats WHAT as a prefix of keys, even if it looks like KIND/KEY
    #[arg(long)]
    prefix: bool,
    /// Repeats the view until Ctrl-C; a terminal is updated in place
    #[arg(long, short)]
    watch: bool,
    /// The interval of --watch
    #[arg(long, value_name = "TIME", value_parser = crate::hold::order::time, default_value = "1s", requires = "watch")]
    every: Duration,
    /// Prints JSON; with --watch one line for each view
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(common: &Common, order: &InspectOrder) -> Outcome {
    let config = common.coordinator()?;
    on_a_server(&config, async |coordinator| show(coordinator, &config, order).await)
}

async fn show(coordinator: &Coordinator, config: &Config, order: &InspectOrder) -> Outcome {
    let target = match order.prefix {
        true => Target::all(order.what.as_deref().unwrap_or_default()),
        false => Target::of(order.what.as_deref()),
    };
    if order.watch {
        return watch::run(coordinator, config, &target, order).await;
    }
    let snapshot = Snapshot::take(coordinator, config, &target).await?;
    print(&order.text(&snapshot)?)?;
    Ok(Ended::WELL)
}

impl InspectOrder {
    fn text(&self, snapshot: &Snapshot) -> Result<String, Failure> {
        if !self.json {
            return Ok(snapshot.table(&self.nothing()));
        }
        let json =
            if self.watch { serde_json::to_string(snapshot) } else { serde_json::to_string_pretty(snapshot) };
        json.map(|json| json + "\n").map_err(|error| Failure::machine("the JSON cannot be generated", error))
    }

    fn nothing(&self) -> String {
        match &self.what {
            Some(what) => format!("no holder and no waiter at {}", table::printable(what)),
            None => "no holder and no waiter".to_owned(),
        }
    }
}

/// A terminal without colours still has a cursor to move.
fn print(text: &str) -> Result<bool, Failure> {
    let text = match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => STYLES.iter().fold(text.to_owned(), |text, style| plain(&text, style)),
        _ => text.to_owned(),
    };
    terminal::print(text)
}

fn plain(text: &str, style: &Style) -> String {
    text.replace(&style.render().to_string(), "").replace(&style.render_reset().to_string(), "")
}
