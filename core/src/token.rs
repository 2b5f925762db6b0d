use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};

const SEQUENCE_BITS: u32 = 53;
const MAX_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

/// A fencing token: a number that rises strictly from one exclusive holder of a key to the next (NODE-TOKEN).
///
/// Claim the token in the guarded resource before the first read, and send it with every write. The resource
/// must refuse a token that is lower than the highest one it has seen.
///
/// The number is below 2^63: an epoch of 10 bits, then a sequence of 53 bits. A token fits into a signed
/// `BIGINT`. serde writes it as a decimal string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u64);

impl Token {
    /// The highest epoch.
    pub const MAX_EPOCH: u16 = (1 << 10) - 1;

    /// Makes a token from an epoch and a sequence number of the coordinator.
    ///
    /// # Errors
    /// `Misconfigured`: a part does not fit. Values are never truncated.
    pub fn new(epoch: u16, sequence: u64) -> Result<Self> {
        if epoch > Self::MAX_EPOCH {
            let why =
                format!("epoch {epoch} does not fit into a fencing token (10 bits): use a new namespace");
            return Err(Error::new(ErrorKind::Misconfigured, why));
        }
        if sequence > MAX_SEQUENCE {
            let why = format!(
                "sequence number {sequence} does not fit into a fencing token (53 bits): correct the server's \
                 clock, or use a new namespace"
            );
            return Err(Error::new(ErrorKind::Misconfigured, why));
        }
        Ok(Self(u64::from(epoch) << SEQUENCE_BITS | sequence))
    }

    pub(crate) fn coded(number: u64) -> Self {
        Self(number & !(1 << 63))
    }

    /// Returns the token as an unsigned number, below 2^63.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the token as a signed number, for an SQL `BIGINT`.
    pub fn as_i64(self) -> i64 {
        self.0 as i64
    }

    /// Returns the epoch: 0 until a move to another coordinator raises it.
    pub fn epoch(self) -> u16 {
        (self.0 >> SEQUENCE_BITS) as u16
    }

    /// Returns the sequence number of the hold on the coordinator.
    pub fn sequence(self) -> u64 {
        self.0 & MAX_SEQUENCE
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Tokens {
    /// With this epoch, which is above zero after locks have moved here from another coordinator.
    OfEpoch(Arc<AtomicU16>),
    /// For a client of both sides of a move, whose sequence numbers are tokens already.
    Coded,
}

impl Default for Tokens {
    fn default() -> Self {
        Self::OfEpoch(Arc::default())
    }
}

impl Tokens {
    pub(crate) fn of(&self, sequence: u64) -> Result<Token> {
        match self {
            Self::OfEpoch(epoch) => Token::new(epoch.load(Ordering::Acquire), sequence),
            Self::Coded => Ok(Token::coded(sequence)),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse::<u64>() {
            Ok(value) if value < 1 << 63 => Ok(Self(value)),
            _ => Err(Error::invalid("token", format!("{text:?} is not a decimal number below 2^63"))),
        }
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_epoch_outranks_every_sequence() {
        let (old, new) = (Token::new(0, MAX_SEQUENCE).unwrap(), Token::new(1, 0).unwrap());
        assert!(new > old);
        assert_eq!((new.epoch(), new.sequence(), old.sequence()), (1, 0, MAX_SEQUENCE));
        assert!(Token::new(Token::MAX_EPOCH, MAX_SEQUENCE).unwrap().as_i64() > 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_never_cut() {
        assert!(Token::new(0, MAX_SEQUENCE + 1).is_err());
        assert!(Token::new(Token::MAX_EPOCH + 1, 0).is_err());
        assert!("9223372036854775808".parse::<Token>().is_err());
    }

    #[test]
    fn json_carries_a_decimal_string() {
        let token = Token::new(0, 1_763_690_000_000_000).unwrap();
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, "\"1763690000000000\"");
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), token);
    }
}
