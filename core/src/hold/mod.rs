mod ended;
mod live;
mod loss;
mod majority;
mod tenure;
mod tenures;

pub use self::ended::{Ended, HoldState};
pub(crate) use self::live::LiveHolds;
pub use self::loss::Loss;
pub(crate) use self::loss::{Run, states};
pub(crate) use self::majority::Majority;
pub(crate) use self::tenure::{ClientId, Tenure};
pub(crate) use self::tenures::HeldBy;
