/// The kind of a recipe. Kinds never collide: `mutex("a")` and `semaphore("a")` are independent (KEY-KINDS).
/// A reentrant mutex excludes the mutex of the same key.
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
    /// The records of quorum clients: they show whether a server lost its data.
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

    /// Returns whether queues of this kind accept shared claims.
    pub fn takes_shared(self) -> bool {
        self == Kind::RwLock || self.admits_all()
    }

    /// Returns whether queues of this kind admit every node.
    pub fn admits_all(self) -> bool {
        matches!(self, Kind::Group | Kind::Barrier | Kind::DoubleBarrier | Kind::Clients)
    }

    /// Returns whether queues of this kind can be watched (WATCH-QUEUE). On some servers, a watch makes each
    /// change of the queue more expensive.
    pub fn is_observed(self) -> bool {
        matches!(self, Kind::Election | Kind::Group | Kind::Clients)
    }

    /// Returns the name of the kind in the keys of a server.
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
