mod markers;
mod played;
mod reader;

use latchwork_conformance::child::Child;
use latchwork_servers::{Kind, Options, Server};
use rustix::process::Signal;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use self::played::Played;
use crate::common::{Over, SOON, program, ran};

pub(crate) struct Sides {
    from: String,
    to: String,
    name: String,
    servers: Vec<Server>,
}

const OPTIONS: &str = "ttl=20s&connect_timeout=20s&request_timeout=5s";

impl Sides {
    async fn of_one_redis() -> Self {
        let server = Server::start(Kind::Redis, Options::new().own()).await.expect("a Redis");
        let url = |namespace| format!("{}?{OPTIONS}&namespace={namespace}", server.url());
        let (from, to) = (url("before"), url("after"));
        Self { from, to, name: "there".to_owned(), servers: vec![server] }
    }

    async fn of_two_redis() -> Self {
        let start = || async { Server::start(Kind::Redis, Options::new().own()).await.expect("a Redis") };
        let servers = vec![start().await, start().await];
        let url = |server: &Server| format!("{}?ttl=20s&connect_timeout=5s&request_timeout=5s", server.url());
        let (from, to) = (url(&servers[0]), url(&servers[1]));
        Self { from, to, name: "there".to_owned(), servers }
    }

    #[cfg(feature = "zookeeper")]
    async fn of_redis_and_zookeeper() -> Self {
        let redis = Server::start(Kind::Redis, Options::new().own()).await.expect("a Redis");
        let zookeeper = Server::start(Kind::Zookeeper, Options::new().own()).await.expect("a ZooKeeper");
        let url = |server: &Server| format!("{}?{OPTIONS}", server.url());
        let (from, to) = (url(&redis), url(&zookeeper));
        Self { from, to, name: "there".to_owned(), servers: vec![redis, zookeeper] }
    }

    fn url(&self) -> String {
        let coded = |url: &str| url.replace('%', "%25").replace('&', "%26");
        format!("moving:?from={}&to={}&move={}", coded(&self.from), coded(&self.to), self.name)
    }

    fn program(&self, arguments: &[&str]) -> Command {
        program(&self.url(), ["migrate"].iter().chain(arguments))
    }

    async fn ran(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        timeout(SOON, ran(self.program(arguments))).await.expect("in time")
    }

    async fn well(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.ran(arguments).await;
        assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
        out
    }

    async fn status(&self) -> Value {
        serde_json::from_str(&self.well(&["status", "--json"]).await).expect("JSON")
    }
}

async fn a_move_is_planned_made_and_finished(sides: Sides) {
    let forgotten = {
        let mut config = latchwork::Config::from_url(&sides.from).expect("a URL");
        config.label = Some("the-forgotten-one".to_owned());
        latchwork::connect(config).await.expect("a client")
    };
    let member = Played::new(&sides, "a-service", true).await;
    let (code, plan, _) = sides.ran(&["plan"]).await;
    assert_eq!(code, Some(120), "{plan}");
    for part in ["a-service", "not redeployed: 1", "the-forgotten-one", "in the way", "participants: 1"] {
        assert!(plan.contains(part), "{part:?} in {plan}");
    }
    let (code, plan, _) = sides.ran(&["plan", "--json"]).await;
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!((code, &plan["outsiders"][0]["side"]), (Some(120), &Value::from("old")), "{plan}");
    let (code, _, said) = sides.ran(&["start"]).await;
    assert!(code == Some(120) && said.contains("the-forgotten-one"), "{said}");
    assert_eq!(sides.status().await["state"], "not-begun");
    forgotten.close().await.expect("a close");

    assert!(sides.well(&["plan"]).await.contains("nothing is in the way"));
    assert!(sides.well(&["start"]).await.contains("both  reached"));
    assert_eq!(sides.status().await["phase"], "both-by-old");
    assert!(sides.well(&["advance"]).await.contains("both-by-new"));
    for url in [&sides.from, &sides.to] {
        let (code, _, said) = ran(program(url, ["lock", "a", "--", "true"])).await;
        assert_eq!(code, Some(122), "it moves: {said}");
        assert!(
            said.contains("moving:?from=") && said.contains("&move=there"),
            "both URLs are reported: {said}"
        );
    }
    // With a mistyped name, or exchanged URLs.
    for (from, to, name) in [(&sides.from, &sides.to, "their"), (&sides.to, &sides.from, "there")] {
        let (from, to, name) = (from.clone(), to.clone(), name.to_owned());
        let wrong = Sides { from, to, name, servers: Vec::new() };
        let (code, shown, said) = wrong.ran(&["status"]).await;
        assert!(code == Some(120) && shown.contains("another move"), "{shown}{said}");
        let (code, _, said) = wrong.ran(&["abort"]).await;
        assert!(code == Some(120) && said.contains("the move \"there\""), "{said}");
    }
    let (code, shown, said) = ran(program(&sides.url(), ["inspect"])).await;
    assert!(code == Some(0) && shown.contains("the move \"there\""), "{shown}{said}");
    sides.well(&["abort"]).await;
    assert_eq!(sides.status().await["state"], "not-begun");
    let run = sides.well(&["run"]).await;
    for part in ["both  reached (both-by-old)", "new   reached", "done  reached", "migrate finish"] {
        assert!(run.contains(part), "{part:?} in {run}");
    }
    let (code, plan, _) = sides.ran(&["plan"]).await;
    for part in [
        "in the way: one client is connected to the old side: \"a-service\"",
        "have both URLs: 1",
        "not redeployed: 0",
    ] {
        assert!(code == Some(120) && plan.contains(part), "{part:?} in {plan}");
    }
    let (code, _, said) = sides.ran(&["finish"]).await;
    assert!(code == Some(120) && said.contains("a-service"), "{said}");
    member.leaves().await;
    assert!(sides.well(&["finish"]).await.contains("finished"));
    let (code, _, said) = sides.ran(&["abort"]).await;
    assert_eq!(code, Some(0), "no move exists any more: {said}");
    let (code, _, said) = ran(program(&sides.from, ["lock", "a", "--", "true"])).await;
    let host = sides.to.split('?').next().expect("an address");
    assert!(code == Some(122) && said.contains(host), "{said}");
    let says_token = ["lock", "a", "--", "sh", "-c", "echo $LATCHWORK_TOKEN"];
    let token: u64 = ran(program(&sides.to, says_token)).await.1.trim().parse().expect("a token");
    assert_eq!(token >> 53, 3, "{token}");
    // The way back, to the retired side.
    let (from, to) = (sides.to.clone(), sides.from.clone());
    let back = Sides { from, to, name: "back".to_owned(), servers: Vec::new() };
    let (code, plan, _) = back.ran(&["plan"]).await;
    assert!(code == Some(120) && plan.contains("latchwork migrate reopen"), "{plan}");
    for said in ["is in use again", "nothing was changed"] {
        let (code, _, warned) = back.ran(&["reopen"]).await;
        assert!(code == Some(0) && warned.contains(said), "{said:?} in {warned}");
    }
    let member = Played::new(&back, "a-service", true).await;
    back.well(&["run"]).await;
    member.leaves().await;
    back.well(&["finish"]).await;
    let (code, _, said) = ran(program(&back.to, ["lock", "a", "--", "true"])).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn redis_to_another_namespace() {
    a_move_is_planned_made_and_finished(Sides::of_one_redis().await).await;
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn redis_to_zookeeper() {
    a_move_is_planned_made_and_finished(Sides::of_redis_and_zookeeper().await).await;
}

#[tokio::test]
async fn status_with_one_server_down_shows_the_phase_and_names_the_side() {
    for (down, side, members) in [(1, "new", 1), (0, "old", 0)] {
        let sides = Sides::of_two_redis().await;
        let member = Played::new(&sides, "a-service", true).await;
        sides.well(&["start"]).await;
        sides.servers[down].stop().await.expect("stopped");
        let shown = sides.well(&["status"]).await;
        let says = format!("the {side} side does not answer");
        assert!(shown.contains("both (both-by-old)") && shown.contains(&says), "{shown}");
        assert_eq!(shown.contains("members: 1"), members == 1, "{shown}");
        let status = sides.status().await;
        assert_eq!((&status["away"]["side"], &status["members"]), (&side.into(), &members.into()));
        let (code, _, said) = sides.ran(&["advance"]).await;
        assert!(code != Some(0) && said.contains(&format!("on the {side} side")), "{said}");
        drop(member);
    }
}

fn running(sides: &Sides, arguments: &[&str]) -> Child<String> {
    Child::of_text(sides.program(arguments))
}

#[tokio::test]
async fn a_run_waits_for_a_late_member_and_ctrl_c_says_how_to_go_on() {
    let sides = Sides::of_one_redis().await;
    let (willing, late) =
        (Played::new(&sides, "willing", true).await, Played::new(&sides, "late", false).await);
    let mut run = running(&sides, &["run"]);
    run.says("waits for 1 of 2 members").await;
    run.says("late on ").await;
    let status = sides.well(&["status"]).await;
    assert!(status.contains("waits for 1") && status.contains("late on "), "{status}");
    let mut watch = running(&sides, &["status", "--watch", "--json", "--every", "50ms"]);
    watch.says("\"waits_for\":[{").await;
    run.process.signal(Signal::INT);
    let Over { said, .. } = Over::of(run).await;
    assert!(said.contains("nothing is lost") && said.contains("migrate run"), "{said}");
    // Another machine can continue, and so can two at once.
    let mut runs = [running(&sides, &["run", "--json"]), running(&sides, &["run", "--json"])];
    for run in &mut runs {
        run.says("\"waits\"").await;
    }
    late.is_willing();
    watch.says("\"phase\":\"done\"").await;
    for run in runs {
        assert!(Over::of(run).await.status.success());
    }
    watch.process.signal(Signal::INT);
    assert!(Over::of(watch).await.status.success());
    for member in [willing, late] {
        member.leaves().await;
    }
}

#[tokio::test]
async fn invalid_move_arguments_are_refused_with_a_hint() {
    for (arguments, says) in [
        (&[][..], "moving:?from="),
        (&["--from", "redis://a"], "--to"),
        (&["--from", "redis://a", "--to", "redis://a", "--move", "m"], "the same namespace"),
    ] {
        let (code, _, said) =
            ran(program("redis://nowhere", [&["migrate", "plan"], arguments].concat())).await;
        assert!(code == Some(125) && said.contains(says), "{said}");
    }
}
