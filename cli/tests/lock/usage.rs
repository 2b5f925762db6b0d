use std::fs;

use crate::common::{Fixture, KEY, program, ran};

#[tokio::test]
async fn the_command_finds_token_key_and_a_url_without_secrets() {
    let fixture = Fixture::new().await;
    let url = fixture.url.replace("redis://", "redis://:hunter2@");
    let script = "echo $LATCHWORK_KEY; echo $LATCHWORK_TOKEN; echo $LATCHWORK_URL";
    let (code, said, complaint) = ran(program(&fixture.url, ["lock", KEY, "--", "sh", "-c", script])).await;
    assert_eq!(code, Some(0), "{complaint}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!((lines[0], lines[2]), (KEY, &*fixture.url));
    assert!(lines[1].parse::<u64>().expect("a token") > 0);
    let (_, reader, _) =
        ran(program(&fixture.url, ["lock", KEY, "--shared", "--", "sh", "-c", script])).await;
    assert_eq!(reader.lines().nth(1), Some(""), "the sequence of a reader does not fence");
    let (code, said, complaint) = ran(program(&url, ["lock", KEY, "--", "env"])).await;
    assert_eq!(code, Some(0), "a server without passwords takes any: {complaint}");
    assert!(
        said.contains("LATCHWORK_URL=") && !said.contains("hunter2") && !complaint.contains("hunter2"),
        "{said}{complaint}"
    );
}

#[tokio::test]
async fn bad_usage_is_125_and_says_what_to_do() {
    let url = "redis://localhost:1";
    for (arguments, says) in [
        (&["lock", KEY][..], "COMMAND"),
        (&["lock", KEY, "--within", "0s", "--", "true"], "zero"),
        (&["lock", KEY, "--try", "--within", "1s", "--", "true"], "cannot be used with"),
        (&["lock", KEY, "--url", "redis:/x", "--", "true"], "scheme://host"),
        (&["lock", KEY, "--url", "memory://", "--", "true"], "excludes no other client"),
        (&["lock", KEY, "--coordinator", "main", "--", "true"], "no file"),
        (&["cron", KEY, "--max-hold", "1s", "--min-hold", "2s", "--", "true"], "--max-hold"),
        (&["lock", KEY, "--max-hold", "1s", "--grace", "1s", "--", "true"], "--grace"),
        (&["lok"], "lock"),
    ] {
        let (code, _, said) = ran(program(url, arguments)).await;
        assert_eq!(code, Some(125), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn missing_command_and_non_program_have_different_exit_codes() {
    let fixture = Fixture::new().await;
    let (code, _, said) = ran(program(&fixture.url, ["lock", KEY, "--", "no-such-command"])).await;
    assert!(code == Some(127) && said.contains("no-such-command"), "{code:?} {said}");
    let (code, _, said) = ran(program(&fixture.url, ["lock", KEY, "--", "/etc/passwd"])).await;
    assert!(code == Some(126) && said.contains("/etc/passwd"), "{code:?} {said}");
}

#[tokio::test]
async fn a_file_names_coordinators() {
    let fixture = Fixture::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.toml");
    let config = ["--config", path.to_str().expect("text")];
    let run = async |more: &[&str]| {
        let arguments = [&["lock", KEY][..], &config, more, &["--", "true"]].concat();
        let (code, _, said) = ran(program("", arguments)).await;
        (code, said)
    };
    let here = &fixture.url;
    let coordinators = format!("[coordinators]\nhere = {here:?}\naway = \"redis://localhost:1\"\n");
    fs::write(&path, format!("default = \"here\"\n{coordinators}")).expect("written");
    assert_eq!(run(&[]).await.0, Some(0));
    assert_eq!(run(&["-c", "here"]).await.0, Some(0));
    assert_eq!(run(&["-c", "away"]).await.0, Some(122));
    let (code, said) = run(&["-c", "nowhere"]).await;
    assert!(code == Some(125) && said.contains("away, here"), "{said}");
    fs::write(&path, "[coordinators]\nhere = { backend = \"redis\", password = \"hunter2\", port = 1 }\n")
        .expect("written");
    let (code, said) = run(&[]).await;
    assert!(code == Some(125) && said.contains("\"port\"") && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn completions_and_man_pages_have_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = ran(program("", ["completions", shell])).await;
        assert!(code == Some(0) && script.contains("semaphore") && !script.contains("\u{1b}["), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (code, ..) = ran(program("", ["man", folder.path().to_str().expect("text")])).await;
    assert_eq!(code, Some(0));
    for page in ["latchwork.1", "latchwork-lock.1", "latchwork-cron.1"] {
        assert!(fs::read_to_string(folder.path().join(page)).expect(page).contains("latchwork"), "{page}");
    }
}
