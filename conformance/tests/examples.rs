//! Each example checks its claims. `own_backend` is a test target itself.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use latchwork_servers::Kind;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::process::Command;

const EXAMPLES: [&str; 12] = [
    "blocking",
    "choose_backend",
    "cron_on_many_hosts",
    "double_barrier_batch",
    "fenced_write",
    "leader_worker",
    "limit_concurrency",
    "live_migration",
    "lock_many",
    "rw_cache",
    "shared_config",
    "stop_on_loss",
];

/// Examples mostly wait, and need little processor time.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let mut trials = vec![trial("every_example_is_listed", every_example_is_listed)];
    trials.extend(EXAMPLES.map(|example| trial(format!("{example}::memory"), move || plays(example, &[]))));
    trials.push(trial("quickstart::whatever_the_urls_say", quickstart));
    for kind in Kind::ALL {
        let url = url_of(kind);
        if let Err(why) = &url {
            eprintln!("left out: the examples on {kind}, because {why}");
        }
        trials.extend(EXAMPLES.map(|example| {
            let (name, url) = (format!("{example}::{kind}"), url.clone());
            let left_out = url.is_err();
            trial(name, move || plays(example, &[url?])).with_ignored_flag(left_out)
        }));
    }
    #[cfg(unix)]
    trials.push(trial("stop_on_loss::ends_in_order_on_sigterm", ends_in_order_on_sigterm));
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: impl Into<String>, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::test(name, || run().map_err(Failed::from))
}

fn url_of(kind: Kind) -> Result<String, String> {
    if !latchwork::compiled_backends().contains(&kind.name()) {
        return Err(format!("this is a build without the feature {kind}"));
    }
    let variable = kind.url_variable();
    std::env::var(variable).ok().filter(|url| !url.is_empty()).ok_or(format!("{variable} names no server"))
}

fn command(example: &str, arguments: &[String]) -> Result<Command, String> {
    let folder = built()?;
    let program = folder.join("examples").join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        return Err(format!(
            "{} is not built: cargo build -p latchwork --examples builds it",
            program.display()
        ));
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

fn built() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    this.ancestors().nth(2).map(PathBuf::from).ok_or(format!("{} is in no target folder", this.display()))
}

fn plays(example: &str, arguments: &[String]) -> Result<(), String> {
    ends_well(example, command(example, arguments)?)
}

/// Runs on all servers of the environment at once, with options in their URLs.
fn quickstart() -> Result<(), String> {
    let mut command = command("quickstart", &[])?;
    for kind in Kind::ALL {
        if let Ok(url) =
            url_of(kind).map(|url| if url.contains('?') { url } else { format!("{url}?ttl=30s&label=mine") })
        {
            command.env(kind.url_variable(), url);
        }
    }
    ends_well("quickstart", command)
}

fn ends_well(example: &str, mut command: Command) -> Result<(), String> {
    bounded(async {
        let output = command.output().await.map_err(|error| format!("{example}: {error}"))?;
        let (said, complained) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() && !said.is_empty() {
            return Ok(());
        }
        Err(format!("{example} ended with {}\n{said}\n{complained}", output.status))
    })
}

#[cfg(unix)]
fn ends_in_order_on_sigterm() -> Result<(), String> {
    use latchwork_conformance::child::Child;
    use rustix::process::Signal;

    let command = command("stop_on_loss", &[])?;
    bounded(async {
        let mut child = Child::of_text(command);
        let mut story = Vec::new();
        while let Some(line) = child.events.next().await {
            if line.starts_with("holds again") {
                child.process.signal(Signal::TERM);
            }
            story.push(line);
        }
        let status = child.process.ended().await;
        let last: Vec<_> = story.iter().rev().take(2).map(String::as_str).collect();
        if status.success() && last == ["closed: nothing is held any more", "SIGTERM: ending"] {
            return Ok(());
        }
        Err(format!("the example ended with {status}\n{}", story.join("\n")))
    })
}

fn bounded(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let late = |_| Err(format!("the example has not ended after {PATIENCE:?}"));
    runtime
        .map_err(|error| error.to_string())?
        .block_on(async { tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(late) })
}

fn every_example_is_listed() -> Result<(), String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut found: Vec<_> = std::fs::read_dir(&folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .iter()
        .map(std::fs::DirEntry::path)
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| !["metrics_endpoint", "own_backend", "quickstart"].contains(&name.as_str()))
        .collect();
    found.sort();
    if found == EXAMPLES { Ok(()) } else { Err(format!("in the folder: {found:?}, tested: {EXAMPLES:?}")) }
}
