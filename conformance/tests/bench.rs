//! The benchmark on memory, quickly: what it prints is there, and parses.

use std::process::Command;

use latchwork_conformance::bench::Line;

fn bench(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchwork-conformance"));
    command.args([
        "bench",
        "--backend",
        "memory",
        "--secs",
        "0.1",
        "--warm",
        "0.02",
        "--held",
        "20",
        "--held-secs",
        "0.1",
    ]);
    // What the harness would say is not for us.
    for variable in ["MEASURES", "SECS", "WARM", "W", "M5_N", "M5_SECS"] {
        command.env_remove(format!("BENCH_{variable}"));
    }
    let output = command.args(args).output().expect("the program starts");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    eprint!("{complaints}");
    (output.status.success(), String::from_utf8(output.stdout).expect("what it prints is UTF-8"), complaints)
}

#[test]
fn every_measure_prints_its_rows_as_json() {
    let all = "M1,M2,M3,RW,PERMITS,REENTRY,M5";
    let (good, printed, _) = bench(&["--json", "--measures", all, "--contenders", "2,4"]);
    let lines: Vec<Line> =
        printed.lines().map(|line| serde_json::from_str(line).expect("every line is a row")).collect();
    let bad: Vec<_> = lines.iter().filter(|line| line.is_bad()).collect();
    assert!(good && bad.is_empty(), "{bad:?}");

    let of = |peer: &str, measure: &str, param: &str| -> &Line {
        lines
            .iter()
            .find(|line| {
                line.peer == format!("{peer}-memory") && line.measure == measure && line.param == param
            })
            .unwrap_or_else(|| panic!("no row {peer} {measure} {param} in {printed}"))
    };
    for peer in ["latchwork-mutex", "latchwork-rw-write", "latchwork-semaphore"] {
        assert!(of(peer, "M1", "1 task").p50 > Some(0.0));
        assert!(of(peer, "M2", "64 tasks").value > Some(0.0));
        for crowd in ["W=2", "W=4"] {
            let grants = of(peer, "M3_grants", crowd);
            assert_eq!(grants.overlaps, Some(0));
            assert!(grants.n > Some(0));
            assert!(of(peer, "M3_handoff", crowd).p50 > Some(0.0));
            assert_eq!(of(peer, "M3_wait", crowd).n, grants.n);
            assert_eq!(of(peer, "M3_fair", crowd).n, grants.n);
        }
    }
    for (peer, measure, param) in [
        ("latchwork-rwlock", "RW", "90/10 W=16"),
        ("latchwork-rwlock", "RW", "50/50 W=16"),
        ("latchwork-semaphore", "PERMITS", "1..3 of 5 W=16"),
    ] {
        let grants = of(peer, &format!("{measure}_grants"), param);
        assert!(grants.n > Some(0) && grants.overlaps == Some(0));
        assert_eq!(of(peer, &format!("{measure}_wait"), param).n, grants.n);
    }
    assert!(of("latchwork-reentrant", "REENTRY", "held").p50 > Some(0.0));
    let held = of("latchwork-mutex", "M5", "20 held");
    assert!(held.n == Some(20) && held.acquire_all_s > Some(0.0) && held.client_cpu_pct.is_some());
}

#[test]
fn the_tables_show_each_measure_over_the_rounds() {
    let (good, printed, _) = bench(&["--rounds", "2", "--contenders", "2"]);
    assert!(good, "{printed}");
    for row in ["latchwork-mutex", "(again)", "W=2", "90/10", "1..3 of 5", "20 held"] {
        assert!(printed.contains(row), "no {row} in\n{printed}");
    }
}

#[test]
fn an_unknown_measure_is_refused_by_its_name() {
    let (good, printed, complaints) = bench(&["--measures", "M9"]);
    assert!(!good && printed.is_empty() && complaints.contains("M9"));
}
