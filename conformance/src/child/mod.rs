//! Child processes: this program again, in a [`Role`].
//!
//! The fields of a role are its arguments. A parent [starts](Child::start) a child with a role, which the child finds in
//! its environment. The child writes [events](Role::Event) to its standard output and reads [`Order`]s from its standard
//! input, one line of JSON each. So a third party's suite has processes with no other binary.

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
