use std::path::{Path, PathBuf};

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) queries: Vec<String>,
}

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn dashboard() -> Vec<Panel> {
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter().map(|panel| {
        let targets = panel["targets"].as_array().expect("targets");
        let queries: Vec<_> = targets
            .iter()
            .map(|target| {
                let query = target["expr"].as_str().expect("a query");
                query.replace("$__rate_interval", "10s").replace("$instance", ".*")
            })
            .collect();
        assert!(!queries.is_empty() && queries.iter().all(|query| !query.contains('$')), "{queries:?}");
        Panel { title: panel["title"].as_str().expect("a title").to_owned(), queries }
    });
    let panels: Vec<_> = panels.collect();
    assert!(panels.len() >= 10, "{} panels", panels.len());
    panels
}

pub(crate) fn rules() -> Vec<(String, String)> {
    let text = text("alerts.yml");
    let alerts = text.split("- alert: ").skip(1).map(|alert| {
        let name = alert.lines().next().expect("a line").trim().to_owned();
        let expression = alert.split("expr:").nth(1).expect("an expression");
        let end =
            ["for:", "labels:"].iter().filter_map(|word| expression.find(&format!("\n        {word}"))).min();
        (name, expression[..end.expect("labels")].trim_start_matches([' ', '>']).to_owned())
    });
    alerts.collect()
}

pub(crate) fn names_in(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("latchwork_")).map(str::to_owned).collect()
}
