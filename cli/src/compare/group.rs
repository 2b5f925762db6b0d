use serde::{Deserialize, Serialize};

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
            Group::HandOff => "One lock, passed from contender to contender",
            Group::Wait => "The longest waits",
            Group::Throughput => "Many tasks, each with its own lock",
            Group::Fairness => "Fairness",
            Group::Recovery => "When a holder or the server dies",
            Group::Link => "Through a slow link",
            Group::Wire => "Traffic on the network",
            Group::Server => "The cost of 1,000 held locks on the server",
        }
    }

    pub(super) const fn how(self) -> &'static str {
        match self {
            Group::Alone => {
                "One task acquires and releases one mutex again and again over one connection. Each pair is confirmed \
                 by the server and timed. p99.9 is shown only if a round has at least 1,000 pairs: with fewer pairs it \
                 would be the worst one or two."
            }
            Group::HandOff => {
                "The contenders, each with its own connection, want one mutex. Each releases it at once and tries \
                 again at once. The time is the median from just before a release until the acquire of another contender \
                 returns. Grants are counted. All contenders are in this process, so its processor limits 128 of them."
            }
            Group::Wait => {
                "In the same contests: the time from the call of acquire until it returns, at the 99th percentile. It \
                 grows with the queue, since each contender waits its turn."
            }
            Group::Throughput => {
                "Several tasks over one connection, each of which acquires and releases its own mutex. Finished pairs \
                 are counted."
            }
            Group::Fairness => {
                "In the contests for one lock: the grants of the contender with the most, divided by the grants of the \
                 contender with the fewest. 1 is perfectly fair. An empty cell: one contender got no grant in a round."
            }
            Group::Recovery => {
                "A separate process holds a mutex (TTL 4 s) and is killed by SIGKILL while another client waits for \
                 it. The time ends when that client holds. It can be less than a TTL, since the last renewal was \
                 before the kill. In memory, the client of the holder stops instead. Then the server is killed and \
                 started again on the same data. The time is from the kill until a connected client holds a lock. The \
                 trial also checks whether a hold from before still exists. A Redis that is started here keeps \
                 nothing on disk."
            }
            Group::Link => {
                "The same pair of acquire and release through a proxy in this program, which delays each direction by \
                 half of the named time. Figures close to twice the time of the link mean one round trip each. The \
                 proxy slows only this client, not the server."
            }
            Group::Wire => {
                "A proxy counts the bytes of an acquire and a release without contention, in both directions. Woken \
                 clients: 16 clients in one queue, each through its own proxy. The figure is the number of clients, \
                 without the releaser, whose connection had traffic after one release. 1 is the minimum: no client wakes \
                 in vain. The server counts the requests."
            }
            Group::Server => {
                "One client acquires 1,000 mutexes, holds them, and closes. The figures are from the server's process: \
                 processor time to open and close, its share of a core in between, and the growth of its resident \
                 memory. The memory is coarse: a process first uses memory that it already has. Without growth no \
                 figure is shown."
            }
        }
    }
}
