use std::fs;
use std::path::PathBuf;

use latchwork_bench::{Line, beside_raw, hand_offs};

use super::Outcome;

#[derive(Debug, clap::Args)]
pub(super) struct PictureArgs {
    /// Files with lines of `bench --json`, or of the harness that runs the peers. Other lines are ignored.
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// The SVG file to write.
    #[arg(long)]
    out: PathBuf,
}

impl PictureArgs {
    pub(super) fn run(self) -> Outcome<()> {
        let mut lines = Vec::new();
        for file in &self.results {
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            lines.extend(text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()));
        }
        hand_offs(&lines, &self.out).map_err(|error| error.to_string())?;
        for line in beside_raw(&lines) {
            println!("{line}");
        }
        Ok(())
    }
}
