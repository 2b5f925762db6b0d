//! Lines of JSON, percentiles, and the parameters of the run.

use std::time::Duration;

use serde_json::{Value, json};

use crate::peer::Peer;

/// Returns a variable of the environment, or a default.
pub fn setting(name: &str, default: &str) -> String {
    std::env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}

/// Returns a variable that is a number of seconds.
pub fn seconds(name: &str, default: &str) -> Duration {
    let value = setting(name, default);
    value
        .parse()
        .map(Duration::from_secs_f64)
        .unwrap_or_else(|_| panic!("{name}={value} is not a number of seconds"))
}

/// Prints one result; `figures` is an object.
pub fn print(peer: &dyn Peer, measure: &str, param: &str, unit: &str, figures: Value) {
    let mut line = json!({
        "peer": peer.name(), "version": peer.version(), "lang": "rust", "server": peer.server(),
        "measure": measure, "param": param, "unit": unit,
    });
    if let (Some(line), Value::Object(figures)) = (line.as_object_mut(), figures) {
        line.extend(figures);
    }
    println!("{line}");
}

/// Returns p50, p99, the longest time in microseconds, and the number of times.
pub fn timed(mut micros: Vec<f64>) -> Value {
    micros.sort_by(f64::total_cmp);
    let at =
        |share: f64| micros.get(((micros.len() as f64 * share) as usize).min(micros.len().saturating_sub(1)));
    json!({"p50": at(0.5), "p99": at(0.99), "max": micros.last(), "n": micros.len()})
}
