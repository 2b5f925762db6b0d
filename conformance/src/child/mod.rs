//! Child processes: this program again, in a [`Role`] from its environment, so that a third party's suite
//! needs no other binary. Standard output has [events](Role::Event), standard input [`Order`]s, as lines of
//! JSON.

mod contested;
mod counting;
mod early;
mod hold;
mod process;
mod role;
mod soak;
mod start;

pub use self::contested::Contested;
pub(crate) use self::counting::Counting;
pub(crate) use self::early::{EndsEarly, WayOut};
pub use self::hold::{Hold, HoldEvent};
pub use self::process::{Child, Events, Process};
pub use self::role::{Order, Orders, Role};
pub(crate) use self::soak::{AGAIN, OneHold, Work, is_of_an_outage};
pub use self::soak::{Soak, SoakKind};
pub(crate) use self::start::{Given, command, play};
