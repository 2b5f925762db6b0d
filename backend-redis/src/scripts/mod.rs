//! The scripts that the server runs (`*.lua`), and for each script its call and its answer.

mod call;
mod cell;
mod cell_lives;
mod count;
mod join;
mod limit;
mod list;
mod look;
mod node;
mod renew;
mod reply;
mod script;
mod selftest;

pub(crate) use call::Call;
pub(crate) use cell::{Holder, cell_read, cell_written, read_cell, write_cell};
pub(crate) use cell_lives::{cell_lives, cells_ended, end_cells, lives_of_cells, renew_cells};
pub(crate) use count::{change_count, count_changed};
pub(crate) use join::{JoinAnswer, join, joined};
pub(crate) use limit::{limit, set_limit, stored_limit};
pub(crate) use list::{list, list_unchanged, listed, populated};
pub(crate) use look::{Looked, cell_looked, look, look_cell, looked};
pub(crate) use node::{abandon, downgrade, leave, revoke, was_done, write_data};
pub(crate) use renew::{RenewAnswer, Renewed, renew, renewed};
pub(crate) use reply::{Flags, Reply, ServerTime, bools};
pub(crate) use script::{ALL, LOADED, Script};
pub(crate) use selftest::{selftest, selftested};
