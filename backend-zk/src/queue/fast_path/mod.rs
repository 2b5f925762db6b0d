//! The fast path, which only saves requests.
//!
//! | called by | what | saves |
//! |---|---|---|
//! | join | [`create_without_listing`] | the listing, if the predecessor or its absence is known |
//! | wait | [`Shortcut`] | the listing after the end of the predecessor |
//! | leave | [`announce_release`] | the listings of the next waiter, which its [`Shortcut`] awaits |
//! | wait | [`FastPath::watcher`] | the loss of a session that has too many watches |
//!
//! With [`Settings::fast_path`](crate::config::Settings) off, none of these does anything. [`created`],
//! [`listed`], [`learn_position`] and [`left`] feed the [history](history). [`verify_admission`] checks an
//! admission by an announced release.

mod birth;
mod history;
mod join;
mod known;
mod release;
mod shortcut;
mod state;
mod trust;
mod verify;
mod watch_sessions;

pub(crate) use join::{WithoutListing, create_without_listing};
pub(crate) use known::{created, learn_position, left, listed};
pub(crate) use release::{Release, announce_release};
pub(crate) use shortcut::Shortcut;
pub(crate) use state::FastPath;
pub(crate) use trust::{believes_announcements, is_open};
pub(crate) use verify::verify_admission;
pub(crate) use watch_sessions::{WatchSessions, Watcher};

#[cfg(test)]
pub(crate) use {birth::Birth, history::History};
