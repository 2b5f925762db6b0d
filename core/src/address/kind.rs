//! The kinds of recipes.

/// The kinds of recipe. Kinds never collide: `mutex("a")` and `semaphore("a")` are two things
/// (KEY-KINDS). A reentrant mutex is of [`Kind::Mutex`], since it excludes the mutex of the same
/// key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Mutex.
    Mutex,
    /// Read/write lock.
    RwLock,
    /// Semaphore.
    Semaphore,
    /// Leader election.
    Election,
    /// Shared value.
    Value,
    /// Counter.
    Counter,
    /// Generator of ids.
    Ids,
    /// Count-down latch.
    Latch,
    /// Group: its members.
    Group,
    /// Barrier: its members.
    Barrier,
    /// The cell of a barrier: its members that have passed.
    Passage,
    /// Double barrier: its members.
    DoubleBarrier,
    /// The cell of a double barrier: its members that have passed.
    DoublePassage,
    /// The clients of a namespace.
    Clients,
    /// The layout of a namespace.
    Layout,
    /// The notes of a quorum's clients about a server's memory.
    Quorum,
}

impl Kind {
    /// The kinds whose addresses are queues.
    pub const QUEUES: [Kind; 8] = [
        Kind::Mutex,
        Kind::RwLock,
        Kind::Semaphore,
        Kind::Election,
        Kind::Group,
        Kind::Barrier,
        Kind::DoubleBarrier,
        Kind::Clients,
    ];

    /// The kinds whose addresses are cells.
    pub const CELLS: [Kind; 8] = [
        Kind::Value,
        Kind::Counter,
        Kind::Ids,
        Kind::Latch,
        Kind::Passage,
        Kind::DoublePassage,
        Kind::Layout,
        Kind::Quorum,
    ];

    /// Whether its queues take shared claims.
    pub fn takes_shared(self) -> bool {
        matches!(self, Kind::RwLock | Kind::Group | Kind::Barrier | Kind::DoubleBarrier | Kind::Clients)
    }

    /// Whether its queues can be watched (WATCH-QUEUE). On some servers a watched queue makes each change
    /// more expensive, so the other kinds are not watched.
    pub fn is_observed(self) -> bool {
        matches!(self, Kind::Election | Kind::Group | Kind::Clients)
    }

    /// The name of the kind in a server's keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::RwLock => "rwlock",
            Kind::Semaphore => "semaphore",
            Kind::Election => "election",
            Kind::Value => "value",
            Kind::Counter => "counter",
            Kind::Ids => "ids",
            Kind::Latch => "latch",
            Kind::Group => "group",
            Kind::Barrier => "barrier",
            Kind::Passage => "passage",
            Kind::DoubleBarrier => "double-barrier",
            Kind::DoublePassage => "double-passage",
            Kind::Clients => "clients",
            Kind::Layout => "layout",
            Kind::Quorum => "quorum",
        }
    }
}
