use std::collections::BTreeMap;

use crate::Result;
use crate::line::Line;
use latchwork_servers::Server;

#[derive(Debug)]
pub(super) enum Counter {
    None,
    #[cfg(feature = "redis")]
    Redis(redis::aio::MultiplexedConnection),
    #[cfg(feature = "zookeeper")]
    Zookeeper(String),
    #[cfg(feature = "etcd")]
    Etcd(String),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    sent: f64,
    /// Redis: commands run inside scripts.
    in_script: Option<f64>,
    /// Redis: microseconds of its single thread for clients.
    busy: Option<f64>,
    /// etcd: messages received, also on open streams.
    messages: Option<f64>,
    by_name: BTreeMap<String, f64>,
}

impl Counter {
    #[allow(clippy::unused_async, reason = "a build without Redis connects to nothing here")]
    pub(super) async fn of(server: &Server) -> Result<Self> {
        match server.kind() {
            #[cfg(feature = "redis")]
            latchwork_servers::Kind::Redis => {
                let url = server.url().split('?').next().unwrap_or_default();
                Ok(Counter::Redis(redis::Client::open(url)?.get_multiplexed_async_connection().await?))
            }
            #[cfg(feature = "zookeeper")]
            latchwork_servers::Kind::Zookeeper => Ok(Counter::Zookeeper(server.addr().to_owned())),
            #[cfg(feature = "etcd")]
            latchwork_servers::Kind::Etcd => Ok(Counter::Etcd(server.addr().to_owned())),
            #[allow(unreachable_patterns)]
            kind => Err(format!("this build has no {kind}").into()),
        }
    }

    pub(super) async fn read(&self) -> Result<Option<Counted>> {
        match self {
            Counter::None => Ok(None),
            #[cfg(feature = "redis")]
            Counter::Redis(connection) => {
                let mut connection = connection.clone();
                let info: String =
                    redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
                Ok(Some(Counted::of_redis(&info)))
            }
            #[cfg(feature = "zookeeper")]
            Counter::Zookeeper(addr) => {
                Counted::of_zookeeper(&latchwork_servers::ask(addr, "srvr").await?).map(Some)
            }
            #[cfg(feature = "etcd")]
            Counter::Etcd(addr) => Ok(Some(Counted::of_etcd(
                &latchwork_servers::ask(addr, "GET /metrics HTTP/1.0\r\n\r\n").await?,
            ))),
        }
    }
}

impl Counted {
    /// The server also counts commands inside scripts, by their names.
    #[cfg(any(feature = "redis", test))]
    fn of_redis(info: &str) -> Self {
        const SENT: [&str; 10] = [
            "eval",
            "evalsha",
            "fcall",
            "script|load",
            "subscribe",
            "unsubscribe",
            "ping",
            "hello",
            "client|setinfo",
            "wait",
        ];
        let mut counted = Self { in_script: Some(0.0), busy: Some(0.0), ..Self::default() };
        for line in info.lines() {
            let fields = line.strip_prefix("cmdstat_").and_then(|rest| rest.split_once(":calls="));
            let Some((name, rest)) = fields else { continue };
            let mut fields = rest.split(',');
            let Some(calls) = fields.next().and_then(|calls| calls.parse::<f64>().ok()) else { continue };
            let micros = fields.find_map(|field| field.strip_prefix("usec=")?.parse::<f64>().ok());
            if name == "info" {
                // The read of the counters itself.
                continue;
            }
            counted.by_name.insert(name.to_owned(), calls);
            if SENT.contains(&name) {
                counted.sent += calls;
                // The time of a script includes its commands.
                counted.busy = counted.busy.zip(micros).map(|(busy, micros)| busy + micros);
            } else if let Some(in_script) = &mut counted.in_script {
                *in_script += calls;
            }
        }
        counted
    }

    #[cfg(any(feature = "zookeeper", test))]
    fn of_zookeeper(srvr: &str) -> Result<Self> {
        let received = srvr.lines().find_map(|line| line.strip_prefix("Received: "));
        let sent = received.and_then(|count| count.trim().parse().ok());
        let sent = sent.ok_or_else(|| {
            format!(
                "the server does not answer `srvr`: allow it in 4lw.commands.whitelist; it said {:?}",
                srvr.lines().next()
            )
        })?;
        Ok(Self { sent, ..Self::default() })
    }

    #[cfg(any(feature = "etcd", test))]
    fn of_etcd(metrics: &str) -> Self {
        let mut counted = Self { messages: Some(0.0), ..Self::default() };
        for line in metrics.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.trim().parse::<f64>() else { continue };
            if name.starts_with("grpc_server_started_total{") {
                let method = name.split("grpc_method=\"").nth(1).and_then(|rest| rest.split('"').next());
                *counted.by_name.entry(method.unwrap_or_default().to_owned()).or_default() += value;
                counted.sent += value;
            } else if name.starts_with("grpc_server_msg_received_total{")
                && let Some(messages) = &mut counted.messages
            {
                *messages += value;
            }
        }
        counted
    }

    fn since(&self, before: &Counted, divisor: f64) -> Counted {
        let each = |now: f64, then: f64| (now - then) / divisor;
        let figure = |of: fn(&Counted) -> Option<f64>| Some(each(of(self)?, of(before)?));
        let named = |(name, now): (&String, &f64)| {
            let more = each(*now, *before.by_name.get(name).unwrap_or(&0.0));
            (more > 0.0).then(|| (name.clone(), (more * 1000.0).round() / 1000.0))
        };
        Counted {
            sent: each(self.sent, before.sent),
            in_script: figure(|counted| counted.in_script),
            busy: figure(|counted| counted.busy),
            messages: figure(|counted| counted.messages),
            by_name: self.by_name.iter().filter_map(named).collect(),
        }
    }

    /// Over `n` acquisitions.
    pub(super) fn per_acquisition(
        line: Line,
        before: Option<Counted>,
        after: Option<Counted>,
        n: u64,
    ) -> Option<Line> {
        let (before, after) = before.zip(after).filter(|_| n > 0)?;
        let Counted { sent, in_script, busy, messages, by_name } = after.since(&before, n as f64);
        let line = Line { value: Some(sent), in_script, server_us: busy, msgs: messages, ..line };
        Some(Line { detail: by_name, n: Some(n), ..line })
    }

    /// Includes commands inside scripts.
    pub(super) fn per_second(
        line: Line,
        before: Option<Counted>,
        after: Option<Counted>,
        seconds: f64,
    ) -> Line {
        let Some((before, after)) = before.zip(after) else { return line };
        let Counted { sent, in_script, messages, by_name, .. } = after.since(&before, seconds);
        Line {
            value: Some(sent + in_script.unwrap_or(0.0)),
            msgs_per_s: messages,
            detail_per_s: by_name,
            ..line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(before: Counted, after: Counted) -> Line {
        Counted::per_acquisition(Line::default(), Some(before), Some(after), 10)
            .expect("there is something to count")
    }

    #[test]
    fn redis_commands_in_scripts_are_counted_separately() {
        let info = |evalsha: u32, hset: u32| {
            let micros = 40 * evalsha;
            format!(
                "# Commandstats\r\ncmdstat_evalsha:calls={evalsha},usec={micros},usec_per_call=40.00\r\n\
                 cmdstat_hset:calls={hset},usec={hset}\r\ncmdstat_info:calls=9,usec=2\r\n"
            )
        };
        let line = figures(Counted::of_redis(&info(5, 0)), Counted::of_redis(&info(25, 60)));
        assert_eq!((line.value, line.in_script, line.detail["hset"]), (Some(2.0), Some(6.0), 6.0));
        assert_eq!(line.server_us, Some(80.0), "the time of a script includes its commands");
    }

    #[test]
    fn etcd_methods_are_added_up() {
        let metrics = |txn: u32| {
            format!(
                "grpc_server_started_total{{grpc_method=\"Txn\",grpc_type=\"unary\"}} {txn}\n\
                 grpc_server_started_total{{grpc_method=\"Watch\",grpc_type=\"bidi_stream\"}} 1\n\
                 grpc_server_msg_received_total{{grpc_method=\"Txn\",grpc_type=\"unary\"}} {txn}\n"
            )
        };
        let line = figures(Counted::of_etcd(&metrics(1)), Counted::of_etcd(&metrics(21)));
        assert_eq!((line.value, line.msgs, line.detail.len()), (Some(2.0), Some(2.0), 1));
    }

    #[test]
    fn zookeeper_must_answer_srvr() {
        let counted = Counted::of_zookeeper("Zookeeper version: 3.8\nReceived: 30\nSent: 29\n").unwrap();
        assert_eq!(figures(Counted::default(), counted).value, Some(3.0));
        assert!(Counted::of_zookeeper("srvr is not executed because it is not in the whitelist.").is_err());
    }
}
