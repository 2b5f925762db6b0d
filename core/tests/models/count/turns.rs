//! A simulation of clients that change one count at once, over [`Pace`], on a server that compares versions
//! (COUNT-PACED). The server answers one request after the other. Times are in microseconds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use latchwork_core::backend::decide::count::{Others, Pace};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The time of a request in the network, in each direction.
const WAY: u64 = 250;
const SERVICE: u64 = 200;
const TTL: u64 = 10_000_000;

#[derive(Clone, Default)]
struct Changes {
    pace: Pace,
    /// The number of writes that its next write expects. Without one, it reads first.
    expects: Option<usize>,
    looked: usize,
    sent: u64,
}

struct Fleet {
    takes_turns: bool,
    clients: Vec<Changes>,
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    is_free_at: u64,
    // The client of each write.
    written: Vec<usize>,
    requests: usize,
    dice: StdRng,
}

impl Fleet {
    fn new(clients: usize, takes_turns: bool) -> Self {
        let arrivals = (0..clients).map(|client| Reverse((WAY, client))).collect();
        let (clients, dice) = (vec![Changes::default(); clients], StdRng::seed_from_u64(7));
        Self { takes_turns, clients, arrivals, is_free_at: 0, written: Vec::new(), requests: 0, dice }
    }

    /// Returns how many clients have succeeded within a TTL, and the requests of all.
    fn run(mut self) -> (usize, usize) {
        while let Some(Reverse((at, client))) = self.arrivals.pop().filter(|Reverse((at, _))| *at < TTL) {
            self.arrives(at, client);
        }
        (self.written.len(), self.requests)
    }

    fn arrives(&mut self, at: u64, number: usize) {
        self.requests += 1;
        self.is_free_at = self.is_free_at.max(at) + SERVICE;
        let (answered, writes) = (self.is_free_at + WAY, self.written.len());
        let client = &mut self.clients[number];
        let round_trip = Duration::from_micros(answered - client.sent);
        let pause = match client.expects {
            Some(expects) if expects == writes => {
                self.written.push(number);
                return;
            }
            Some(_) => {
                let writers: BTreeSet<_> = self.written[client.looked..].iter().collect();
                let others = Others { writers: writers.len(), writes: (writes - client.looked) as u64 };
                client.pace.refused(others, round_trip, Duration::from_micros(TTL / 4));
                let window = if self.takes_turns { client.pace.window() } else { Duration::ZERO };
                window.mul_f64(self.dice.random_range(0.0..1.0))
            }
            None => Duration::ZERO,
        };
        client.looked = writes;
        client.expects = pause.is_zero().then_some(writes);
        client.sent = answered + u64::try_from(pause.as_micros()).expect("short");
        self.arrivals.push(Reverse((client.sent + WAY, number)));
    }
}

#[test]
fn a_fleet_of_clients_takes_turns() {
    for clients in [2, 10, 100, 1_000] {
        let (done, requests) = Fleet::new(clients, true).run();
        assert_eq!(done, clients, "{requests} requests");
        assert!(requests <= 20 * clients, "{clients} clients: {requests} requests");
    }
}

#[test]
fn a_fleet_that_tries_again_at_once_collapses() {
    let (done, requests) = Fleet::new(1_000, false).run();
    assert!(done < 500, "{done} of 1000 with {requests} requests");
}
