use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchwork_servers::ask;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

fn program(name: &str) -> PathBuf {
    let unpacked =
        std::env::var_os("LATCHWORK_SERVER_DIR").map(|root| Path::new(&root).join("usr/bin").join(name));
    match unpacked.filter(|path| path.is_file()) {
        Some(path) => path,
        None => PathBuf::from(name),
    }
}

fn missing(name: &str, error: &std::io::Error) -> String {
    format!("{name} does not start ({error}): install Debian's package prometheus, as ./test does")
}

/// Returns its success and its output.
pub(crate) fn promtool(arguments: &[&str]) -> (bool, String) {
    let ran = std::process::Command::new(program("promtool"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("{}", missing("promtool", &error)));
    let said = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    (ran.status.success(), said)
}

pub(crate) struct Prometheus {
    address: SocketAddr,
    started: f64,
    _process: Child,
    _folder: TempDir,
}

impl Prometheus {
    pub(crate) async fn start(targets: &[SocketAddr]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let targets: Vec<_> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [\"{}\"]\nscrape_configs:\n  - job_name: latchwork\n    static_configs:\n      - targets: [{}]\n",
            crate::files::path("alerts.yml").display(),
            targets.join(", "),
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).expect("written");
        let address = crate::run::free_address();
        let process = Command::new(program("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log")).expect("made"))
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}", missing("prometheus", &error)));
        let prometheus = Self { address, started: now(), _process: process, _folder: folder };
        prometheus.ready().await;
        prometheus
    }

    async fn ready(&self) {
        let patience = tokio::time::Instant::now() + Duration::from_secs(60);
        let host = self.address.to_string();
        loop {
            let request = format!("GET /-/ready HTTP/1.0\r\nHost: {host}\r\n\r\n");
            if ask(&host, &request).await.is_ok_and(|answer| answer.starts_with("HTTP/1.0 200")) {
                return;
            }
            assert!(tokio::time::Instant::now() < patience, "Prometheus does not come up: {}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self._folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) async fn values(&self, query: &str) -> Vec<f64> {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let (host, start, end) = (self.address.to_string(), self.started, now());
        let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step=1");
        let answer =
            ask(&host, &format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")).await.expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(body["status"], "success", "{body}");
        let series = body["data"]["result"].as_array().expect("series");
        let values = series.iter().flat_map(|series| series["values"].as_array().into_iter().flatten());
        let numbers = values.filter_map(|value| value[1].as_str()?.parse::<f64>().ok());
        numbers.filter(|number| number.is_finite()).collect()
    }

    pub(crate) async fn draw(&self, picture: &Path) {
        let minutes = ((now() - self.started) / 60.0).ceil();
        let graphs = [
            "sum by (outcome) (rate(latchwork_acquisitions_total[10s]))",
            "sum(latchwork_clients_suspended)",
            "sum by (reason) (latchwork_losses_total) > 0",
        ];
        let graphs = graphs.iter().enumerate().map(|(number, query)| {
            let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
            format!("g{number}.expr={query}&g{number}.tab=0&g{number}.range_input={minutes}m")
        });
        let page = format!("http://{}/classic/graph?{}", self.address, graphs.collect::<Vec<_>>().join("&"));
        let profile = tempfile::tempdir().expect("a folder");
        let drawn = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--window-size=1000,2350",
            ])
            .arg("--virtual-time-budget=10000")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(&page)
            .output()
            .await
            .expect("chromium draws the picture: install it");
        assert!(drawn.status.success() && picture.is_file(), "{}", String::from_utf8_lossy(&drawn.stderr));
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}
