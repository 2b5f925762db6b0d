use std::process::Command;

const VARIABLE: &str = "LATCHWORK_OWN_PROCESS";

/// Runs the calling test again, as the only test of a new process.
///
/// Returns true there. The first process returns false after the child has passed, and otherwise panics. The program must use the
/// standard test harness.
///
/// ```no_run
/// #[test]
/// fn recorder_counts_each_acquisition() {
///     if !latchwork_conformance::own_process!() {
///         return;
///     }
///     // Here the test may install the recorder of the process.
/// }
/// ```
#[macro_export]
macro_rules! own_process {
    () => {{
        fn here() {}
        $crate::is_own_process(::std::any::type_name_of_val(&here))
    }};
}

/// `here` is the path of an item in the test.
#[doc(hidden)]
pub fn is_own_process(here: &str) -> bool {
    let test = test_of(here);
    if std::env::var(VARIABLE).is_ok_and(|named| named == test) {
        return true;
    }
    let program = std::env::current_exe().expect("the path of this test program");
    let child = Command::new(program)
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env(VARIABLE, test)
        .output()
        .expect("the test program starts again");
    let (stdout, stderr) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{test} failed in its own process:\n{stdout}\n{stderr}");
    assert!(stdout.contains("test result: ok. 1 passed"), "{test} is not a test of this program:\n{stdout}");
    false
}

/// Returns the name of the only test of this process, or of its parent.
pub fn own_process_test() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

fn test_of(here: &str) -> &str {
    let path = here.split_once("::").map_or(here, |(_, path)| path);
    let path = path.strip_suffix("::here").unwrap_or(path);
    path.split("::{{closure}}").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_name_omits_crate_and_closures() {
        assert_eq!(test_of("program::module::works::here"), "module::works");
        assert_eq!(test_of("program::works::{{closure}}::here"), "works");
        assert_eq!(test_of("program::works::{{closure}}::{{closure}}::here"), "works");
    }

    #[test]
    fn child_runs_only_this_test() {
        if !crate::own_process!() {
            return;
        }
        assert_eq!(std::env::var(VARIABLE).as_deref(), Ok("own_process::tests::child_runs_only_this_test"));
    }

    /// The control.
    #[test]
    #[should_panic(expected = "failed in its own process")]
    fn failure_of_the_child_is_reported() {
        if !crate::own_process!() {
            return;
        }
        std::process::exit(1);
    }
}
