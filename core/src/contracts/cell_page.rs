//! The cells of a kind, page by page.

use super::cell_life::CellLife;
use crate::address::Address;

/// A cell that a listing shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedCell {
    /// Where it is.
    pub cell: Address,
    /// How long it stays, by its last write. A time to idle is as the server counts it: none less than
    /// was asked for, and less than a second more.
    pub life: CellLife,
}

/// A page of the cells that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellPage {
    /// The cells. Within a page each comes once.
    pub cells: Vec<ListedCell>,
    /// Where the next page begins, in the backend's own words; `None` after the last.
    pub next: Option<String>,
}
