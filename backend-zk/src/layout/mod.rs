//! Names and values on the server.
//!
//! | path | what | kind of node |
//! |---|---|---|
//! | `/<ns>/<kind>/<key>/<node>` | one holder or waiter; its data are the owner's label and the node's data | ephemeral, sequential |
//! | `/<ns>/<kind>/<key>` | a queue | container |
//! | `/<ns>/limits/<key>` | the stored limit of a semaphore | persistent |
//! | `/<ns>/released/<node>` | created and deleted by one transaction, the announced release | persistent |
//! | `/<ns>/<kind>/<key>`, of kinds with cells | a cell; its data are the value | persistent, or ephemeral |
//! | `<path>:latchwork-<kind>/cell` | a cell at an exact address | persistent, or ephemeral |
//! | `/<ns>/client/<id>` | one client; its data is the label | ephemeral |
//!
//! A client creates the plain directories above a queue when it connects, and a directory of cells with its
//! first cell.

mod contenders;
mod names;
mod node_data;
mod paths;

#[cfg(test)]
pub(crate) use contenders::Contender;
pub(crate) use contenders::Contenders;
pub(crate) use names::{as_reader, counter, has_id, id_of, is_used_up, numbered, prefix};
pub(crate) use node_data::{DataLayout, NodeData, admitted, downgraded, is_admitted, plain, sequence};
pub(crate) use paths::{
    CellPaths, QueuePaths, RELEASED, SERVERS_OWN, cell_directories, check_path, directories, in_directory,
    kind_directory, limits_directory, member_path, released_path, split,
};
