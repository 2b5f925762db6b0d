use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

const PAUSE: Duration = Duration::from_millis(5);

/// This process becomes the parent of orphaned descendants, and so finds all of them.
#[cfg(target_os = "linux")]
pub(super) fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn adopt() -> io::Result<()> {
    Ok(())
}

/// Also kills processes that the descendants start. Without `/proc` it kills only `child`.
pub(super) async fn kill_all(mut child: Option<Pid>, mut ended: impl FnMut(Pid, WaitStatus)) {
    loop {
        let mut any = false;
        for pid in of(getpid()).into_iter().chain(child).collect::<HashSet<_>>() {
            // A process that has just exited is reaped below.
            any |= kill_process(pid, Signal::KILL).is_ok();
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            // From now on another process can get its number.
            child = child.filter(|child| *child != pid);
            ended(pid, status);
        }
        if !any {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn of(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        if let Some(parent) = living_parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor.as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            next.push(child);
        }
    }
    found
}

/// `None` for a zombie. The name in parentheses can contain any character.
fn living_parent(stat: &str) -> Option<i32> {
    let mut words = stat[stat.rfind(')')? + 1..].split_whitespace();
    match words.next()? {
        "Z" | "X" => None,
        _ => words.next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(living_parent("12 (a) R 7) S 34 12 0"), Some(34));
        assert_eq!(living_parent("12 (a) Z 34 12 0"), None);
        assert_eq!(living_parent(""), None);
    }
}
