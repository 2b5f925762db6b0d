//! The scripts that the server runs (`*.lua`), and per script what a client sends and reads.

mod call;
mod cell;
mod cell_lives;
mod count;
mod data;
mod join;
mod leased_cells;
mod leave;
mod limit;
mod list;
mod look;
mod populated;
mod renew;
mod reply;
mod script;
mod selftest;

pub(crate) use call::Call;
pub(crate) use cell::{Holder, WriteAnswer, cell_read, cell_written, read_cell, write_cell};
pub(crate) use cell_lives::{cell_lives, lives_of_cells};
pub(crate) use count::{change_count, count_changed};
pub(crate) use data::write_data;
pub(crate) use join::{JoinAnswer, join, joined};
pub(crate) use leased_cells::{cells_ended, cells_renewed, end_cells, renew_cells};
pub(crate) use leave::{abandon, downgrade, leave, revoke, was_there};
pub(crate) use limit::{limit, limit_set, set_limit, stored_limit};
pub(crate) use list::{list, listed};
pub(crate) use look::{Looked, cell_looked, look, look_cell, looked};
pub(crate) use populated::{are_populated, populated};
pub(crate) use renew::{RenewAnswer, Renewed, renew, renewed};
pub(crate) use reply::{Flags, Reply, ServerTime};
pub(crate) use script::{ALL, LOADED, Script};
pub(crate) use selftest::{selftest, selftested};
