use std::process::Command;
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
use std::{sync::Arc, time::Duration};

use latchwork_bench::Line;
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
use latchwork_bench::{Bench, Measure, Plan, Recipe, Summary, Target};
#[cfg(feature = "zookeeper")]
use latchwork_conformance::cases::is_long;
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
use latchwork_conformance::servers::{Kind, Options, Server};
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
use latchwork_core::{Config, Connector};

fn bench(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchwork-conformance"));
    let quick = "bench --backend memory --secs 0.05 --warm 0.01 --held 20 --held-secs 0.1";
    command.args(quick.split(' '));
    // Variables of the benchmark harness would change the options.
    for variable in ["MEASURES", "SECS", "WARM", "W", "M5_N", "M5_SECS"] {
        command.env_remove(format!("BENCH_{variable}"));
    }
    let output = command.args(args).output().expect("the program starts");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    eprint!("{complaints}");
    (output.status.success(), String::from_utf8(output.stdout).expect("the output is UTF-8"), complaints)
}

#[test]
fn every_measure_prints_its_rows_as_json() {
    let all = "M1,M2,M3,RW,PERMITS,GIVEUPS,REENTRY,COUNTER,LATCH,VALUE,ELECTION,QUORUM,MOVE,M5,BARRIER,MANY";
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
            .unwrap_or_else(|| panic!("the output has no row {peer} {measure} {param}: {printed}"))
    };
    for peer in ["latchwork-mutex", "latchwork-rw-write", "latchwork-semaphore"] {
        assert!(of(peer, "M1", "1 task").p50 > Some(0.0));
        assert!(of(peer, "M2", "64 tasks").value > Some(0.0));
        for contenders in ["W=2", "W=4"] {
            let grants = of(peer, "M3_grants", contenders);
            assert_eq!(grants.overlaps, Some(0));
            assert!(grants.n > Some(0));
            assert!(of(peer, "M3_handoff", contenders).p50 > Some(0.0));
            assert_eq!(of(peer, "M3_wait", contenders).n, grants.n);
            assert_eq!(of(peer, "M3_fair", contenders).n, grants.n);
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
    for peer in ["latchwork-mutex", "latchwork-rw-write", "latchwork-semaphore"] {
        for param in ["0 % W=32", "5 % W=32", "20 % W=32", "50 % W=32"] {
            let grants = of(peer, "GIVEUPS_grants", param);
            assert!(grants.n > Some(0) && grants.overlaps == Some(0));
            let free = of(peer, "GIVEUPS_free", param).value.expect("a share of the time");
            assert!((0.0..=100.0).contains(&free), "{free} %");
        }
    }
    for (peer, measure, param) in [
        ("latchwork-multi-3", "M1", "1 task"),
        ("latchwork-counter", "COUNTER", "1 task"),
        ("latchwork-latch", "LATCH_count", "1 task"),
        ("latchwork-latch", "LATCH", "N=16"),
        ("latchwork-value", "VALUE_write", "1 task"),
        ("latchwork-value", "VALUE", "N=16"),
        ("latchwork-quorum-3", "QUORUM", "1 task"),
        ("latchwork-quorum-5", "QUORUM", "1 task"),
        ("latchwork-on-old", "MOVE", "mutex to memory"),
        ("latchwork-moving-both-by-old", "MOVE", "semaphore to memory"),
        ("latchwork-moving-done", "MOVE", "rw-write to memory"),
    ] {
        assert!(of(peer, measure, param).p50 > Some(0.0), "{measure}");
    }
    assert!(of("latchwork-counter", "COUNTER_adds", "W=16").n > Some(0));
    let terms = of("latchwork-election", "ELECTION_grants", "W=16");
    assert!(terms.n > Some(0) && terms.overlaps == Some(0));
    assert!(of("latchwork-election", "ELECTION_handoff", "W=16").p50 > Some(0.0));
    assert!(of("latchwork-reentrant", "REENTRY", "held").p50 > Some(0.0));
    let held = of("latchwork-mutex", "M5", "20 held");
    assert!(held.n == Some(20) && held.acquire_all_s > Some(0.0) && held.client_cpu_pct.is_some());
    for what in ["at once", "after the last"] {
        assert!(of("latchwork-barrier", "BARRIER", &format!("20 members, {what}")).value > Some(0.0));
    }
    for phase in ["quiet", "opening", "kept", "closing"] {
        let many = of("latchwork-mutex", "MANY", &format!("20 locks, {phase}"));
        assert!(many.value > Some(0.0) && many.overlaps.is_none(), "{many:?}");
    }
    assert!(of("latchwork-mutex", "MANY", "20 locks, kept").n > Some(0), "nobody stood by");
    let end = of("latchwork-mutex", "MANY", "20 locks, closing").note.as_deref();
    assert_eq!(end, Some("closed; 0 of 100 locks are not free"));
}

#[test]
fn the_tables_show_each_measure_over_the_rounds() {
    let (good, printed, told) = bench(&["--rounds", "2", "--held-rounds", "2", "--contenders", "2"]);
    assert!(good, "{printed}");
    assert!(told.contains("M5 20 held, round 2 of 2"), "{told}");
    for row in [
        "latchwork-mutex",
        "latchwork-multi-3",
        "(again)",
        "W=2",
        "90/10",
        "1..3 of 5",
        "20 % W=32",
        "one counter",
        "a latch that opens",
        "a value that is written",
        "hand-overs/s",
        "latchwork-moving-both-by-new",
        "20 held",
        "20 locks, closing",
    ] {
        assert!(printed.contains(row), "no {row} in\n{printed}");
    }
}

#[test]
fn an_unknown_measure_is_refused_by_its_name() {
    let (good, printed, complaints) = bench(&["--measures", "M9"]);
    assert!(!good && printed.is_empty() && complaints.contains("M9"));
}

/// Measure, name of its request counts, and the two peers with the same requests.
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
const BESIDE_RAW: [(&str, &str, [&str; 2]); 5] = [
    ("M1", "uncontended", ["latchwork-mutex", "raw-same"]),
    ("M1", "uncontended", ["latchwork-multi-3", "raw-same-3"]),
    ("COUNTER", "add", ["latchwork-counter", "raw-same"]),
    ("LATCH_count", "count", ["latchwork-latch", "raw-same"]),
    ("VALUE_write", "write", ["latchwork-value", "raw-same"]),
];

/// The counts would include the requests of other clients.
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
async fn plays_on(kind: Kind, connector: Arc<dyn Connector>) {
    let server = Server::start(kind, Options::new().own()).await.unwrap_or_else(|error| panic!("{error}"));
    let target = Target::on(server, None, vec![connector]).await.unwrap();
    let moment = Duration::from_millis(100);
    let plan = Plan {
        time: moment,
        warm: moment,
        contenders: vec![2],
        give_ups: vec![20],
        raw: true,
        ..Plan::default()
    };
    let bench = Bench { targets: vec![target], plan };
    let (mut lines, mut summary) = (Vec::new(), Summary::default());
    let measures = [Measure::Uncontended, Measure::Handoff, Measure::Counter, Measure::Latch, Measure::Value];
    for job in bench.jobs(&measures, &[Recipe::Mutex]) {
        lines.extend(bench.play(&job).await);
    }
    summary.add(lines.iter().cloned());
    assert!(summary.is_good(), "{summary}");

    let of = |peer: &str, measure: &str, param: &str| -> &Line {
        let named = |line: &&Line| line.peer == peer && line.measure == measure && line.param == param;
        lines.iter().find(named).unwrap_or_else(|| panic!("no row {peer} {measure} {param} in\n{summary}"))
    };
    for (measure, asked, beside) in BESIDE_RAW {
        assert!(beside.iter().all(|peer| of(peer, measure, "1 task").p50 > Some(0.0)));
        let [ours, raw] = beside.map(|peer| of(peer, "M4", asked));
        assert!(
            ours.asks_as(raw),
            "{measure}: {:?} {:?}, raw {:?} {:?}",
            ours.value,
            ours.detail,
            raw.value,
            raw.detail
        );
    }
    for (measure, ours) in [("LATCH", "latchwork-latch"), ("VALUE", "latchwork-value")] {
        assert!([ours, "raw-same"].iter().all(|peer| of(peer, measure, "N=16").p50 > Some(0.0)));
    }
    assert!(of("latchwork-value", "M4", "cached read").value < Some(0.1));
    assert!(of("latchwork-mutex", "M3_grants", "W=2").n > Some(0));
    assert!(of("latchwork-mutex", "M4", "W=2").value > Some(0.0));
}

/// A participant sends each side the requests of a plain client. If it holds on both sides, it reads the
/// stage once more.
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
async fn moves(kinds: [Kind; 2], connectors: Vec<Arc<dyn Connector>>) {
    let mut targets = Vec::new();
    for kind in kinds {
        let server =
            Server::start(kind, Options::new().own()).await.unwrap_or_else(|error| panic!("{error}"));
        let mut config = Config::from_url(server.url()).unwrap();
        if !kinds.contains(&Kind::Zookeeper) {
            config.ttl = Duration::from_secs(600);
        }
        targets.push(Target::compared(config, Some(server), connectors.clone()).await.unwrap());
    }
    let [old, new]: [Target; 2] = targets.try_into().expect("two");
    let moment = Duration::from_millis(100);
    // A renewal changes the mean of many acquisitions little.
    let plan = Plan { time: 5 * moment, warm: moment, ..Plan::default() };
    let bench = Bench { targets: vec![old.moving_to(new)], plan };
    // The second job begins with the moves in their phases.
    for job in bench.jobs(&[Measure::Moving], &[Recipe::Mutex, Recipe::Semaphore]) {
        let mut summary = Summary::default();
        summary.add(bench.play(&job).await);
        let shown = summary.to_string();
        assert!(summary.is_good(), "{shown}");
        assert!(!shown.contains("MISSED"), "{job}:\n{shown}");
        assert_eq!(shown.matches(": met").count(), 10, "{job}:\n{shown}");
    }
}

/// Tier 2.
#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
mod larger {
    use super::*;

    #[cfg(feature = "redis")]
    #[tokio::test(flavor = "multi_thread")]
    async fn participants_of_a_move_on_redis_send_the_requests_of_plain_clients() {
        moves([Kind::Redis; 2], vec![latchwork_redis::connector()]).await;
    }

    /// On ZooKeeper a client lists again after an acquisition slower than a tenth of a second, and the counts
    /// differ.
    #[cfg(feature = "zookeeper")]
    fn is_quiet_enough() -> bool {
        if !is_long() {
            println!("left out: this test is in the long tier");
        }
        is_long()
    }

    #[cfg(feature = "zookeeper")]
    #[tokio::test(flavor = "multi_thread")]
    async fn participants_of_a_move_on_zookeeper_send_the_requests_of_plain_clients() {
        if !is_quiet_enough() {
            return;
        }
        moves([Kind::Zookeeper; 2], vec![latchwork_zookeeper::connector()]).await;
    }

    #[cfg(feature = "etcd")]
    #[tokio::test(flavor = "multi_thread")]
    async fn participants_of_a_move_on_etcd_send_the_requests_of_plain_clients() {
        moves([Kind::Etcd; 2], vec![latchwork_etcd::connector()]).await;
    }

    #[cfg(all(feature = "redis", feature = "zookeeper"))]
    #[tokio::test(flavor = "multi_thread")]
    async fn participants_of_a_move_from_redis_to_zookeeper_send_the_requests_of_plain_clients() {
        if !is_quiet_enough() {
            return;
        }
        let connectors = vec![latchwork_redis::connector(), latchwork_zookeeper::connector()];
        moves([Kind::Redis, Kind::Zookeeper], connectors).await;
    }

    #[cfg(feature = "redis")]
    #[tokio::test(flavor = "multi_thread")]
    async fn raw_redis_requests_equal_recipe_requests() {
        plays_on(Kind::Redis, latchwork_redis::connector()).await;
    }

    #[cfg(feature = "zookeeper")]
    #[tokio::test(flavor = "multi_thread")]
    async fn raw_zookeeper_requests_equal_recipe_requests() {
        plays_on(Kind::Zookeeper, latchwork_zookeeper::connector()).await;
    }

    #[cfg(feature = "etcd")]
    #[tokio::test(flavor = "multi_thread")]
    async fn raw_etcd_requests_equal_recipe_requests() {
        plays_on(Kind::Etcd, latchwork_etcd::connector()).await;
    }
}
