use std::process::Command;

/// This case has the largest futures.
#[test]
fn unoptimised_case_plays_with_the_default_stack_of_a_thread() {
    let reports = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_latchwork-conformance"))
        .args(["run", "--backend", "memory", "--cases", "node_cancel_every_future_of_a_mutex"])
        .env("LATCHWORK_REPORTS", reports.path())
        .env_remove("RUST_MIN_STACK")
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}
