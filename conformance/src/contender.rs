//! A client process: it takes one lock, reports what it believes, and obeys orders, line by line.
//!
//! The suite starts one by running its own executable again with
//! [`VARIABLE`](crate::order::VARIABLE) set, so that a third party's suite has processes too, with
//! no other binary. People use it as `latchwork-conformance hold`.

use std::process::Stdio;
use std::sync::Arc;

use futures_util::FutureExt;
use latchwork_core::decide::Claim;
use latchwork_core::{Clock, Config, Connector, Coordinator, Ended, LostReason, Result, connect};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::context::Context;
use crate::exclusive::Guard;
use crate::order::{Counts, Early, Event, Order, Soak, say};
use crate::soak::{is_of_an_outage, report};
use crate::waits::soon;

/// The contender's side: takes the lock, reports, obeys `look` and `release` (or the end of its
/// input).
///
/// # Errors
/// What connecting, acquiring or releasing answers.
pub async fn contend(connectors: &[Arc<dyn Connector>], order: Order) -> Result<()> {
    if let Some(operates) = order.operates {
        operates.work(connectors, &order.config()).await?;
        say(&Event::Released);
        return Ok(());
    }
    let coordinator = connect(connectors, &order.config()).await?;
    if let Some(soak) = order.soak {
        soak.contend(&coordinator, &order).await?;
        match coordinator.close().await {
            // What it leaves behind then goes within a TTL.
            Err(error) if soak.outlasts && is_of_an_outage(&error) => {}
            closed => closed?,
        }
        say(&Event::Released);
        return Ok(());
    }
    if let Some(traffic) = order.traffic {
        traffic.contend(&coordinator).await?;
        coordinator.close().await?;
        say(&Event::Released);
        return Ok(());
    }
    if let Some(early) = order.early {
        return early.contend(coordinator, &order).await;
    }
    if order.turns {
        take_turns(&coordinator, &order).await?;
        coordinator.close().await?;
        say(&Event::Released);
        return Ok(());
    }
    if let Some(counts) = order.counts {
        count(&coordinator, &order, counts).await?;
        coordinator.close().await?;
        say(&Event::Released);
        return Ok(());
    }
    let clock = Clock::system();
    let asked = clock.now();
    let guard = order.acquire(&coordinator).await?;
    let waited_ms = u64::try_from(clock.now().since(asked).as_millis()).unwrap_or(u64::MAX);
    say(&Event::Held { token: guard.token(), waited_ms });
    obey(&guard, BufReader::new(tokio::io::stdin()).lines(), order.reports_loss).await;
    match guard.release().await {
        // Its loss was reported when it happened, if that was asked for.
        Err(error) if error.lost_reason().is_none() => return Err(error),
        _ => {}
    }
    coordinator.close().await?;
    say(&Event::Released);
    Ok(())
}

/// Holds again and again, until it is told to release.
async fn take_turns(coordinator: &Coordinator, order: &Order) -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let guard = tokio::select! {
            biased;
            _ = lines.next_line() => return Ok(()),
            guard = order.acquire(coordinator) => guard?,
        };
        report(&guard, Claim::Exclusive, guard.token(), tokio::task::yield_now()).await?;
        guard.release().await?;
    }
}

async fn count(coordinator: &Coordinator, order: &Order, counts: Counts) -> Result<()> {
    match counts {
        Counts::Adds(times) => {
            let counter = coordinator.counter(order.name())?;
            for _ in 0..times {
                say(&Event::Counted { number: counter.add(1).await? });
            }
            Ok(())
        }
        Counts::Ids(block) => {
            let ids = coordinator.id_generator(order.name())?.with_block(block)?;
            loop {
                let id = ids.next_id().await?;
                say(&Event::Counted { number: i64::try_from(id).unwrap_or(i64::MAX) });
            }
        }
    }
}

impl Order {
    /// An order to hold, in a case.
    fn of(context: &Context, config: &Config, key: &str) -> Self {
        Self::to_hold(config, key, context.adapter)
    }
}

async fn obey(guard: &Guard, mut lines: Lines<BufReader<Stdin>>, reports_loss: bool) {
    let mut lost = reports_loss.then(|| guard.lost());
    loop {
        let watching = async {
            match &mut lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Orders come first.
            biased;
            line = lines.next_line() => match line {
                Ok(Some(line)) if line == "look" => say(&look(guard)),
                Ok(Some(line)) if line == "release" => return,
                Ok(Some(line)) => eprintln!("unknown order {line:?}: look or release"),
                Ok(None) | Err(_) => return,
            },
            loss = watching => {
                lost = None;
                if let Ended::Lost(reason) = loss {
                    say(&Event::Lost { reason });
                }
            }
        }
    }
}

fn look(guard: &Guard) -> Event {
    let is_held = guard.is_held();
    let check = guard.check().err().map(|error| match error.lost_reason() {
        Some(LostReason::Expired) => "expired".to_owned(),
        _ => error.to_string(),
    });
    Event::Looked { is_held, check, lost_at_first_poll: guard.lost().now_or_never().is_some() }
}

/// The suite's side of a contender.
#[derive(Debug)]
pub(crate) struct Contender {
    child: Child,
    orders: ChildStdin,
    events: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    pub(crate) async fn start(context: &Context, config: &Config, key: &str) -> Self {
        Self::obeying(context, Order::of(context, config, key)).await
    }

    /// A process that takes the lead in an election, with this data.
    pub(crate) async fn leading(context: &Context, config: &Config, key: &str, data: &str) -> Self {
        let leads_as = Some(data.to_owned());
        Self::obeying(context, Order { leads_as, ..Order::of(context, config, key) }).await
    }

    /// A process that soaks.
    pub(crate) async fn soaking(context: &Context, config: &Config, key: &str, soak: Soak) -> Self {
        Self::obeying(context, Order { soak: Some(soak), ..Order::of(context, config, key) }).await
    }

    /// A process that takes turns, as a build that works with layouts up to this one.
    pub(crate) async fn of_layout(context: &Context, config: &Config, key: &str, layout: u32) -> Self {
        let order = Order { turns: true, layout: Some(layout), ..Order::of(context, config, key) };
        Self::obeying(context, order).await
    }

    /// A process whose work ends early.
    pub(crate) async fn ending_early(context: &Context, config: &Config, key: &str, early: Early) -> Self {
        Self::obeying(context, Order { early: Some(early), ..Order::of(context, config, key) }).await
    }

    /// A process that counts.
    pub(crate) async fn counting(context: &Context, config: &Config, key: &str, counts: Counts) -> Self {
        Self::obeying(context, Order { counts: Some(counts), ..Order::of(context, config, key) }).await
    }

    async fn obeying(context: &Context, order: Order) -> Self {
        context.take_others(&order.key).await;
        assert!(!context.testbed.connectors().is_empty(), "a contender needs a connector");
        let mut child = order
            .command()
            .expect("the own executable is known")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the own executable runs");
        let orders = child.stdin.take().expect("piped");
        let events = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, orders, events }
    }

    /// The next event, which must come soon.
    pub(crate) async fn next(&mut self) -> Event {
        soon("the process says something", self.next_in_time()).await
    }

    /// The next event, whenever it comes.
    pub(crate) async fn next_in_time(&mut self) -> Event {
        loop {
            let line = self.events.next_line().await.expect("its output is read");
            let line = line.expect("the process lives");
            if let Some(event) = Event::of_line(&line) {
                return event.unwrap_or_else(|error| panic!("{line:?} is no event: {error}"));
            }
        }
    }

    pub(crate) async fn ask_look(&mut self) {
        self.orders.write_all(b"look\n").await.expect("written");
    }

    /// Tells it to release, and waits for its end in order.
    pub(crate) async fn release(self) {
        self.release_and_hear().await;
    }

    /// As [`release`](Self::release), and answers what it has said until then.
    pub(crate) async fn release_and_hear(mut self) -> Vec<Event> {
        self.tell_to_release().await;
        self.ends().await
    }

    /// Tells it to release.
    pub(crate) async fn tell_to_release(&mut self) {
        self.orders.write_all(b"release\n").await.expect("written");
    }

    /// Waits for its end in order, which comes by itself, and answers what it has said until then.
    pub(crate) async fn ends(mut self) -> Vec<Event> {
        let mut said = Vec::new();
        loop {
            match self.next().await {
                Event::Released => break,
                event => said.push(event),
            }
        }
        let status = soon("the process ends", self.child.wait()).await.expect("waited");
        assert!(status.success(), "{status}");
        said
    }

    /// Waits for its end, which comes before it has said anything: whether it has failed.
    pub(crate) async fn fails(mut self) -> bool {
        while let Some(line) =
            soon("the process ends", self.events.next_line()).await.expect("its output is read")
        {
            assert!(Event::of_line(&line).is_none(), "it has begun: {line}");
        }
        !soon("the process ends", self.child.wait()).await.expect("waited").success()
    }

    /// Lets work that [ends early](Contender::ending_early) come to its end: the code of the
    /// process.
    pub(crate) async fn end_early(mut self) -> Option<i32> {
        self.orders.write_all(b"go on\n").await.expect("written");
        soon("the process ends", self.child.wait()).await.expect("waited").code()
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.expect("killed");
    }

    /// SIGKILL, and what it has said until then.
    pub(crate) async fn kill_and_hear(mut self) -> Vec<Event> {
        self.kill().await;
        let mut said = Vec::new();
        while let Some(line) = self.events.next_line().await.expect("its output is read") {
            // The last line may be cut off.
            said.extend(serde_json::from_str::<Event>(&line));
        }
        said
    }

    /// SIGSTOP.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn cont(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
        rustix::process::kill_process(pid.expect("the process lives"), signal).expect("signalled");
    }
}
