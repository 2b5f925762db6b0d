use serde::Serialize;

use super::column::Origin;
use super::figures::Better;
use super::report::{Figure, Report};

const LEVEL: f64 = 1.1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    pub(super) question: &'static str,
    pub(super) names: Vec<String>,
    pub(super) because: String,
}

enum By {
    Figure(&'static str),
    Promise(&'static str, &'static str),
    Kept,
}

const QUESTIONS: [(&str, By); 11] = [
    (
        "A lock must survive the loss of a server",
        By::Promise("survives_failover", "a failover there can forget a lock: fence your data"),
    ),
    ("Held locks must survive a restart of the server", By::Kept),
    ("A free lock in the shortest time", By::Figure("alone.p50")),
    ("No slow outliers: the slowest 1 %", By::Figure("alone.p99")),
    ("Two clients that acquire one lock in turns", By::Figure("grants.2")),
    ("A crowd of clients that want one lock", By::Figure("grants.128")),
    ("Many locks of one client at the same time", By::Figure("throughput.64")),
    ("A distant server (round trip of 50 ms)", By::Figure("link.50")),
    ("A holder dies: the next client holds soon", By::Figure("crash.ttl")),
    (
        "A job that many hosts try at the same minute",
        By::Promise("clean_try", "all tries can be refused at once there: wait with a deadline instead"),
    ),
    ("A small server: its work for 1,000 held locks", By::Figure("held.cpu")),
];

/// Memory coordinates only one process.
pub(super) fn of(report: &Report) -> Vec<Answer> {
    let servers: Vec<_> = report
        .coordinators
        .iter()
        .filter(|column| column.origin != Origin::Process)
        .map(|column| column.name.as_str())
        .collect();
    QUESTIONS
        .iter()
        .filter_map(|(question, by)| {
            let (names, because) = match by {
                By::Figure(id) => by_figure(report.figure(id)?, &servers)?,
                By::Promise(id, otherwise) => by_promise(report, id, otherwise, &servers)?,
                By::Kept => kept(report.figure("restart.kept")?, &servers)?,
            };
            Some(Answer { question, names, because })
        })
        .collect()
}

fn by_figure(figure: &Figure, servers: &[&str]) -> Option<(Vec<String>, String)> {
    let best = figure.best.as_deref()?;
    let ranked = |name: &&str| {
        let value = figure.values.get(*name)?;
        Some(((*name).to_owned(), value.ratio?, figure.unit.shown(value.spread.median)))
    };
    let mut ranked: Vec<_> = servers.iter().filter_map(ranked).collect();
    ranked.sort_by(|one, other| one.1.median.total_cmp(&other.1.median));
    let (_, _, figure_of_best) =
        ranked.iter().find(|(name, ..)| name == best).filter(|_| ranked.len() > 1)?.clone();
    let (level, worse): (Vec<_>, Vec<_>) = ranked
        .into_iter()
        .partition(|(name, ratio, _)| name == best || ratio.median <= LEVEL || ratio.min <= 1.0);
    let names: Vec<_> = level.iter().map(|(name, ..)| name.clone()).collect();
    let higher = figure.better == Better::Higher;
    let others = worse.iter().map(|(name, ratio, shown)| match higher {
        true => format!("{name} {} of that ({shown})", times(1.0 / ratio.median)),
        false => format!("{name} {} times that ({shown})", times(ratio.median)),
    });
    let others: Vec<_> = others.collect();
    // Worse by the median, but not in every round.
    let unsure: Vec<_> = level
        .iter()
        .filter(|(name, ratio, _)| name != best && ratio.median > LEVEL)
        .map(|(name, ..)| name.as_str())
        .collect();
    let unsure = match unsure.is_empty() {
        true => String::new(),
        false => format!("; the difference to {} is within the noise of this run", unsure.join(" and ")),
    };
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    let level = if others.is_empty() && unsure.is_empty() { "; all are equal" } else { "" };
    Some((names, format!("{figure_of_best}{others}{unsure}{level}")))
}

pub(super) fn times(ratio: f64) -> String {
    match ratio {
        _ if ratio >= 100.0 => format!("{ratio:.0}"),
        _ if ratio >= 10.0 => format!("{ratio:.1}"),
        _ if ratio >= 0.1 => format!("{ratio:.2}"),
        _ => format!("{ratio:.3}"),
    }
}

fn by_promise(report: &Report, id: &str, otherwise: &str, servers: &[&str]) -> Option<(Vec<String>, String)> {
    let promise = report.guarantees.iter().find(|guarantee| guarantee.id == id)?;
    let (able, not): (Vec<&str>, Vec<&str>) =
        servers.iter().copied().partition(|name| promise.values.get(*name).is_some_and(|said| said == "yes"));
    let because = match not.is_empty() {
        true => "all of them promise this".to_owned(),
        false => format!("not {}: {otherwise}", not.join(" and ")),
    };
    Some((able.into_iter().map(str::to_owned).collect(), because))
}

fn kept(figure: &Figure, servers: &[&str]) -> Option<(Vec<String>, String)> {
    let tried: Vec<_> = servers.iter().filter(|name| figure.values.contains_key(**name)).collect();
    let (able, not): (Vec<&str>, Vec<&str>) =
        tried.into_iter().copied().partition(|name| figure.values[*name].spread.min >= 1.0);
    let because = match (able.is_empty(), not.is_empty()) {
        (true, true) => return None,
        (_, true) => "all of them kept a hold".to_owned(),
        _ => format!("not {}, as it was started here", not.join(" and ")),
    };
    Some((able.into_iter().map(str::to_owned).collect(), because))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    fn answer<'a>(answers: &'a [Answer], question: &str) -> &'a Answer {
        answers.iter().find(|answer| answer.question.starts_with(question)).expect("an answer")
    }

    #[test]
    fn quickest_servers_with_nearly_equal_times_share_the_answer() {
        let answers = of(&report(&[("memory", 1.0), ("redis", 100.0), ("etcd", 250.0)]));
        let quickest = answer(&answers, "A free lock");
        assert_eq!(quickest.names, ["redis"], "memory is left out");
        assert!(
            quickest.because.contains("100 µs") && quickest.because.contains("etcd 2.50 times"),
            "{quickest:?}"
        );
        let answers = of(&report(&[("redis", 250.0), ("etcd", 100.0), ("zookeeper", 104.0)]));
        assert_eq!(answer(&answers, "A free lock").names, ["etcd", "zookeeper"]);
    }

    #[test]
    fn server_slower_in_only_some_rounds_shares_the_answer() {
        let mut report = report(&[("redis", 100.0), ("etcd", 250.0)]);
        let figure = report.figures.iter_mut().find(|figure| figure.id == "alone.p50").expect("a figure");
        let value = figure.values.get_mut("etcd").expect("a value");
        value.ratio.as_mut().expect("a ratio").min = 0.9;
        let answers = of(&report);
        let quickest = answer(&answers, "A free lock");
        assert_eq!(quickest.names, ["redis", "etcd"]);
        assert!(
            quickest.because.ends_with("the difference to etcd is within the noise of this run"),
            "{quickest:?}"
        );
    }

    #[test]
    fn guarantees_give_answers_and_missing_figures_give_no_answer() {
        let answers = of(&report(&[("redis", 100.0), ("etcd", 250.0)]));
        let survives = answer(&answers, "A lock must survive");
        assert_eq!(survives.names, ["etcd"]);
        assert!(survives.because.starts_with("not redis: "), "{survives:?}");
        assert!(answers.iter().all(|answer| !answer.question.contains("crowd")));
    }

    #[test]
    fn single_server_gives_no_answer_about_speed() {
        let answers = of(&report(&[("memory", 1.0), ("redis", 100.0)]));
        assert!(answers.iter().all(|answer| !answer.question.starts_with("A free lock")), "{answers:?}");
    }
}
