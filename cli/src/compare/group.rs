//! Figures that are shown together, and how they are measured.

use serde::{Deserialize, Serialize};

/// Figures that are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Group {
    Alone,
    HandOff,
    Wait,
    Throughput,
    Fairness,
    Recovery,
    Link,
    Wire,
    Server,
}

impl Group {
    pub(super) const ALL: [Group; 9] = [
        Group::Alone,
        Group::HandOff,
        Group::Wait,
        Group::Throughput,
        Group::Fairness,
        Group::Recovery,
        Group::Link,
        Group::Wire,
        Group::Server,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Group::Alone => "A free lock: acquire and release",
            Group::HandOff => "One lock from contender to contender",
            Group::Wait => "How long the unlucky wait",
            Group::Throughput => "Many tasks, each on a lock of its own",
            Group::Fairness => "Fairness",
            Group::Recovery => "When a holder or the server dies",
            Group::Link => "Behind a slow link",
            Group::Wire => "What goes over the wire",
            Group::Server => "What a thousand held locks cost the server",
        }
    }

    pub(super) const fn how(self) -> &'static str {
        match self {
            Group::Alone => {
                "One task acquires and releases one mutex again and again over one connection; each pair is confirmed \
                 by the server and timed. p99.9 is shown from 1,000 pairs a round on: below that it would be the worst \
                 one or two."
            }
            Group::HandOff => {
                "So many contenders, each on a connection of its own, want one mutex; each releases at once and asks \
                 again at once. Timed is from just before a release until another's acquire returns (the median), and \
                 grants are counted. All contenders are in this process, so 128 are bound by its processor too."
            }
            Group::Wait => {
                "In the same contests: from the call of acquire until it returns, the worst hundredth. It grows with \
                 the queue, since everybody waits a turn."
            }
            Group::Throughput => {
                "So many tasks over one connection, each acquiring and releasing a mutex of its own; finished pairs \
                 are counted."
            }
            Group::Fairness => {
                "In the same contests: the grants of the contender that got most, divided by those of the one that got \
                 fewest. 1 is perfectly fair; where there is no figure, one got none in the time of a round."
            }
            Group::Recovery => {
                "A process of its own holds a mutex (TTL 4 s) and is killed by SIGKILL while another client waits for \
                 it: timed until that one holds. It may be less than a TTL, since the lease was last renewed before \
                 the kill. In memory the holder's client falls silent instead. Then the server itself is killed and \
                 started again on the same data: timed from the kill until a client that was connected holds a lock, \
                 and looked whether a hold from before is still there. A Redis that is started here keeps nothing on \
                 disk."
            }
            Group::Link => {
                "The same pair of acquire and release through a proxy of this program that delays each way by half of \
                 the time that is named. Figures close to twice the link's time mean one round trip each. The proxy \
                 slows this client's way only, not the server."
            }
            Group::Wire => {
                "Bytes are counted by a proxy in the way, both ways, for an acquire and release alone. Woken clients: \
                 16 in one queue, each through a proxy of its own; of how many the connection had traffic after one \
                 release, the releaser left out. 1 is the least: nobody wakes in vain. Requests are what the server \
                 itself counts."
            }
            Group::Server => {
                "One client opens 1,000 mutexes, keeps them, and closes. The server's process is looked at from \
                 outside: processor time to open and close, its share of a core in between, and growth of its \
                 resident memory. That is coarse: a process first uses what it has at hand from what came before, and \
                 where it did not grow, there is no figure."
            }
        }
    }
}
