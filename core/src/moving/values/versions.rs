//! Versions of cells across a move.
//!
//! A version belongs to one side. A participant adds the epoch of that side's tokens. So versions of a cell
//! rise across the move, and an earlier one matches no cell.

use crate::contracts::{CellWritten, Version, VersionedValue};
use crate::error::Result;
use crate::token::Token;

/// The version that a participant gives out.
pub(super) fn outward(epoch: u16, version: Version) -> Result<Version> {
    Ok(Version::new(Token::new(epoch, version.number())?.as_u64(), version.condition()))
}

/// The version for the side with this epoch; `None` for a version of another epoch.
pub(super) fn inward(epoch: u16, version: Version) -> Option<Version> {
    let token = Token::new(epoch, 0).ok()?;
    let number = version.number().checked_sub(token.as_u64())?;
    // Otherwise it is of a later epoch.
    Token::new(epoch, number).is_ok().then(|| Version::new(number, version.condition()))
}

pub(super) fn shown(epoch: u16, cell: Option<VersionedValue>) -> Result<Option<VersionedValue>> {
    cell.map(|cell| Ok(VersionedValue { version: outward(epoch, cell.version)?, ..cell })).transpose()
}

pub(super) fn answered(epoch: u16, written: CellWritten) -> Result<CellWritten> {
    Ok(match written {
        CellWritten::Written(version) => CellWritten::Written(outward(epoch, version)?),
        CellWritten::Refused(cell) => CellWritten::Refused(shown(epoch, cell)?),
        deleted @ CellWritten::Deleted { .. } => deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rise_with_the_epoch_and_fit_their_own_alone() {
        let version = |number| Version::new(number, 7);
        let (old, new) = (outward(0, version(900)).unwrap(), outward(1, version(3)).unwrap());
        assert!(new > old);
        assert_eq!(inward(1, new), Some(version(3)));
        assert_eq!(inward(1, new).map(Version::condition), Some(7));
        for (epoch, version) in [(0, new), (1, old), (2, new), (2, old)] {
            assert_eq!(inward(epoch, version), None, "{version} in epoch {epoch}");
        }
        assert!(outward(0, version(1 << 53)).is_err());
    }
}
