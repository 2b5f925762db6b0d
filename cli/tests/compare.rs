use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Fixture, gone, keys, parent, pid_of, program, ran};
use crate::terminal::Terminal;
use html5gum::Token;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

const CONTESTS: &str = "hand-off, 16 contenders";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn compared(arguments: &[&str]) -> (Option<i32>, String, String) {
    ran(program("", ["compare"].iter().chain(arguments))).await
}

#[tokio::test]
async fn memory_and_a_redis_are_compared_as_json_and_as_a_page_that_loads_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (page, saved) = (at("page.html"), at("saved.json"));
    let only = "--only=alone,hand-off,throughput,link,wire,restart,held";
    let arguments =
        ["memory", "redis", "--quick", "--rounds=1", only, "--json", "--page", &page, "--save", &saved];
    let begun = Instant::now();
    let (code, out, said) = compared(&arguments).await;
    assert_eq!(code, Some(0), "{said}");
    eprintln!("took {:?}", begun.elapsed());

    let json: Value = serde_json::from_str(&out).expect("JSON");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&saved).expect("saved")).expect("JSON");
    assert_eq!(json, kept);
    assert_eq!((&json["schema"], &json["quick"], &json["rounds"]), (&1.into(), &true.into(), &1.into()));
    let figure = |id: &str| {
        let figures = json["figures"].as_array().expect("figures");
        figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no {id} in {json:#}"))
    };
    let of = |id: &str, name: &str| figure(id)["values"][name]["spread"]["median"].as_f64();
    for id in ["alone.p50", "alone.p99", "handoff.2", "grants.16", "grants.128", "wait.16", "throughput.64"] {
        for name in ["memory", "redis"] {
            assert!(of(id, name) > Some(0.0), "{id} of {name}");
        }
        assert_eq!(figure(id)["best"], "redis", "memory is not a server");
    }
    for (id, ms) in [("link.1", 1.0), ("link.10", 10.0), ("link.50", 50.0)] {
        assert!(of(id, "redis") >= Some(2.0 * ms * 1000.0), "{id}");
        assert_eq!(of(id, "memory"), None);
    }
    assert!(of("wakes", "redis") >= Some(1.0) && of("bytes.all", "redis") > Some(100.0));
    assert!(of("requests.alone", "redis") >= Some(2.0), "an acquire and a release");
    assert_eq!(of("restart.kept", "redis"), Some(0.0), "it is started without a disk");
    assert!(of("restart.back", "redis") > of("restart.serves", "redis"));
    assert!(of("held.cpu", "redis").is_some() && of("held.keep", "redis").is_some());
    if json["figures"].as_array().expect("figures").iter().any(|figure| figure["id"] == "held.memory") {
        assert!(of("held.memory", "redis") > Some(0.0));
    }
    let promise = |id: &str, name: &str| {
        let all = json["guarantees"].as_array().expect("guarantees");
        all.iter().find(|one| one["id"] == id).expect("it")["values"][name].clone()
    };
    assert_eq!(
        (promise("clean_try", "redis"), promise("survives_failover", "redis")),
        ("yes".into(), "no".into())
    );
    assert!(json["coordinators"][1]["version"].as_str().is_some_and(|version| !version.is_empty()));

    loads_nothing(&std::fs::read_to_string(&page).expect("a page"));
}

fn loads_nothing(page: &str) {
    const LOADS: [&str; 12] = [
        "src",
        "href",
        "srcset",
        "data",
        "poster",
        "action",
        "formaction",
        "background",
        "cite",
        "ping",
        "xlink:href",
        "manifest",
    ];
    let (mut in_style, mut charts, mut styles) = (false, 0, 0);
    for token in html5gum::Tokenizer::new(page) {
        match token.unwrap_or_else(|never| match never {}) {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                assert!(
                    !["script", "iframe", "object", "embed", "base"].contains(&name.as_str()),
                    "a {name}"
                );
                in_style = name == "style";
                charts += usize::from(name == "svg");
                for (attribute, value) in &tag.attributes {
                    let (attribute, value) = (text(attribute), text(value));
                    assert!(!attribute.starts_with("on"), "{name} {attribute}");
                    let here = value.starts_with('#') || value.starts_with("data:");
                    assert!(!LOADS.contains(&attribute.as_str()) || here, "{name} {attribute}={value}");
                    assert!(!value.contains("url("), "{name} {attribute}={value}");
                }
            }
            Token::EndTag(_) => in_style = false,
            Token::String(said) if in_style => {
                let style = text(&said);
                styles += 1;
                assert!(
                    !style.contains("url(") && !style.contains("@import") && !style.contains("//"),
                    "{style}"
                );
            }
            _ => {}
        }
    }
    assert!(charts >= 5 && styles > 0, "{charts} charts, {styles} styles");
}

#[tokio::test]
async fn a_saved_run_is_a_baseline_of_the_same_kinds_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("saved.json").display().to_string();
    let run = ["memory", "--quick", "--rounds=3", "--only=alone", "--no-page"];
    let (code, out, said) = compared(&[&run[..], &["--save", &saved]].concat()).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("A free lock: acquire and release"), "{out}");

    // Slower than this machine can be.
    let mut json: Value =
        serde_json::from_str(&std::fs::read_to_string(&saved).expect("saved")).expect("JSON");
    for figure in json["figures"].as_array_mut().expect("figures") {
        let spread = &mut figure["values"]["memory"]["spread"];
        for name in ["min", "median", "max"] {
            spread[name] = (spread[name].as_f64().expect("a figure") * 1000.0).into();
        }
    }
    std::fs::write(&saved, json.to_string()).expect("written");
    let (_, marked, _) = compared(&[&run[..], &["--baseline", &saved]].concat()).await;
    assert!(marked.contains("▼ better"), "{marked}");

    let (code, _, said) =
        compared(&["memory", "redis", "--quick", "--only=alone", "--baseline", &saved]).await;
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("the baseline is of memory, and this run of memory, redis"), "{said}");

    std::fs::write(&saved, r#"{"schema": 99}"#).expect("written");
    let (code, _, said) = compared(&[&run[..], &["--baseline", &saved]].concat()).await;
    assert!(code == Some(125) && said.contains("the schema 99"), "{said}");
}

#[tokio::test]
async fn given_server_is_untouched_without_a_terminal() {
    let fixture = Fixture::new().await;
    let (code, _, said) = compared(&[&fixture.url, "--quick"]).await;
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("needs a terminal; add --yes to measure it"), "{said}");
    assert!(keys(fixture.server.addr()).await.starts_with("*0"), "nothing was written");
}

#[tokio::test]
async fn an_option_that_names_a_coordinator_is_not_ignored() {
    for option in [["--url", "redis://localhost"], ["--coordinator", "main"]] {
        let (code, _, said) = compared(&[&["memory", "--quick"][..], &option].concat()).await;
        assert!(code == Some(125) && said.contains("as arguments"), "{said}");
    }
}

#[tokio::test]
async fn answer_no_at_the_terminal_leaves_the_server_untouched() {
    let fixture = Fixture::new().await;
    let (program, url) = (env!("CARGO_BIN_EXE_latchwork"), &fixture.url);
    let script = format!("echo $$; exec {program} compare '{url}' --quick 2>&1");
    let (mut terminal, mut asked) = Terminal::run(&fixture, &["sh", "-c", &script]).await;
    let mut question = String::new();
    while !question.contains("Type yes:") {
        question += &asked.line().await;
    }
    assert!(question.contains(fixture.server.addr()) && question.contains("not stopped"), "{question}");
    terminal.types(b"no\n").await;
    assert_eq!(asked.over().await.code(), 125);
    assert!(keys(fixture.server.addr()).await.starts_with("*0"), "nothing was written");
}

#[tokio::test]
async fn nothing_stays_on_a_given_server_and_it_is_neither_stopped_nor_filled() {
    let fixture = Fixture::new().await;
    let pid = fixture.server.pid();
    let arguments = [&fixture.url, "memory", "--yes", "--quick", "--rounds=1", "--json"];
    let (code, out, said) = compared(&arguments).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("redis: the namespace latchwork-compare-"), "{said}");
    assert!(keys(fixture.server.addr()).await.starts_with("*0"), "{}", keys(fixture.server.addr()).await);
    assert_eq!(fixture.server.pid(), pid);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    let redis = &json["coordinators"][0];
    assert_eq!((&redis["kind"], &redis["origin"]), (&"redis".into(), &"given".into()));
    let left_out = redis["left_out"].as_array().expect("a list").iter();
    let left_out: Vec<_> = left_out.map(|left| left["what"].as_str().expect("a name")).collect();
    let named = [
        "hand-off, 128 contenders",
        "throughput, 64 tasks",
        "the server is killed and started",
        "1000 held",
        "requests",
    ];
    for name in named {
        assert!(left_out.contains(&name), "{name} in {left_out:?}");
    }
    let crash =
        json["figures"].as_array().expect("figures").iter().find(|figure| figure["id"] == "crash.ttl");
    let ttls = crash.expect("it")["values"]["redis"]["spread"]["median"].as_f64().expect("a figure");
    // The kill is up to a third of a TTL after the last renewal, and a busy machine is late.
    assert!((0.25..2.5).contains(&ttls), "{ttls} TTLs");
}

#[tokio::test]
async fn ctrl_c_ends_it_and_cleans_up() {
    let fixture = Fixture::new().await;
    let mut command = program("", ["compare", &fixture.url, "redis", "--yes", "--no-page"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let begins = async {
        while let Some(line) = said.next_line().await.expect("a line") {
            if line.contains(CONTESTS) {
                return;
            }
        }
        panic!("no contest");
    };
    tokio::time::timeout(Duration::from_secs(60), begins).await.expect("in time");
    let started = children(pid_of(child.id()));
    assert!(!started.is_empty(), "a Redis was started");
    kill_process(pid_of(child.id()), Signal::INT).expect("it runs");
    let status =
        tokio::time::timeout(Duration::from_secs(30), child.wait()).await.expect("an end").expect("a status");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2), "{status}");
    let mut rest = String::new();
    said.into_inner().read_to_string(&mut rest).await.expect("its words");
    assert!(rest.contains("interrupted: ") && rest.contains("is deleted"), "{rest}");
    assert!(keys(fixture.server.addr()).await.starts_with("*0"), "{}", keys(fixture.server.addr()).await);
    for pid in started {
        gone(pid).await;
    }
}

fn children(of: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| parent(*pid) == Some(of))
        .collect()
}

#[test]
fn cases_named_for_guarantees_exist_in_the_suite() {
    let source = include_str!("../src/compare/guarantees.rs");
    let all: Vec<_> = latchwork_conformance::cases::all().into_iter().map(|case| case.name).collect();
    let table = &source[source.find("const ALL").expect("the table")..];
    let table = &table[..table.find("\n];").expect("its end")];
    let named: Vec<_> = table
        .split("&[")
        .skip(2)
        .flat_map(|rest| rest.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2))
        .collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(all.contains(&name), "no case {name}");
    }
}
