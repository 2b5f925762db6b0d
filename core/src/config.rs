//! How to reach a coordinator: the parts of a URL as fields.

mod backend_options;
mod check;
mod fields;
mod file;
mod moving;
mod options;
mod scheme;
mod shared;
mod shown;
mod url;

pub use self::backend_options::Options;
#[cfg(feature = "tls")]
pub(crate) use self::check::backend_name;
pub use self::fields::{Config, ENDLESS, MoveConfig};
pub(crate) use self::fields::{MOVING, Participates};
pub use self::scheme::{Hosts, Scheme};
