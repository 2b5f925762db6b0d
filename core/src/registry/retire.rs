//! Retiring a namespace: nobody may be there any more.

use futures_util::TryStreamExt;

use super::listing::Clients;
use super::marker::refusal;
use super::place::Place;
use super::raise::names;
use super::stamp::Stamped;
use crate::config::Config;
use crate::contracts::Backend;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::error::{Error, ErrorKind, Result};
use crate::label::check_visible;
use crate::seen;

/// The longest URL of a marker: it must fit into the cell beside the rest.
const MAX_URL_BYTES: usize = 1024;

/// Marks the namespace, if no client but operators is there.
pub(crate) async fn retire(backend: &dyn Backend, place: &Place, clients: &Clients, to: &str) -> Result<()> {
    let own = GateMarker { course: Course::Leaves, name: None, url: checked(to)?.to_owned() };
    loop {
        let read = stamped(backend, place).await?;
        if !own.may_follow(read.marker.as_ref()) {
            return Err(another(read.marker.as_ref(), place));
        }
        // Else somebody else has written the stamp since it was read.
        let Some(written) = read.mark(backend, place, Some(&own)).await? else { continue };
        let clients: Vec<_> = clients.clone().into_stream().try_collect().await?;
        let outside = clients.iter().filter(|client| !GateMarker::admits(Some(&own), client.who()));
        let outside: Vec<_> = outside.collect();
        if !outside.is_empty() {
            // Where it stood before, it stays: they are refused by it.
            if read.marker.is_none() && written.mark(backend, place, None).await?.is_none() {
                continue;
            }
            let count = outside.len();
            let why = format!(
                "{count} clients are connected:{}: end them, or give them the URL {:?}, and call it again",
                names(&outside),
                own.url
            );
            return Err(Error::new(ErrorKind::Conflict, why));
        }
        // What stands still stood while the clients were listed.
        if stamped(backend, place).await?.version == written.version {
            seen::retired(backend.name(), &place.namespace, &own.url);
            return Ok(());
        }
    }
}

/// Takes back what [`retire`] has written. Answers whether there was anything.
pub(crate) async fn reopen(backend: &dyn Backend, place: &Place) -> Result<bool> {
    loop {
        let read = stamped(backend, place).await?;
        match &read.marker {
            None => return Ok(false),
            Some(GateMarker { course: Course::Leaves, name: None, .. }) => {}
            marker => return Err(another(marker.as_ref(), place)),
        }
        if read.mark(backend, place, None).await?.is_some() {
            seen::reopened(backend.name(), &place.namespace);
            return Ok(true);
        }
    }
}

/// What is marked on the namespace, if anything is.
pub(crate) async fn marked(backend: &dyn Backend, place: &Place) -> Result<Option<GateMarker>> {
    Ok(Stamped::read(backend, place).await?.and_then(|read| read.marker))
}

/// The stamp, which each client has written or found as it entered.
pub(crate) async fn stamped(backend: &dyn Backend, place: &Place) -> Result<Stamped> {
    Stamped::read(backend, place).await?.ok_or_else(|| {
        let why = format!("the stamp of namespace {:?} was deleted: connect anew", place.namespace);
        Error::new(ErrorKind::Conflict, why)
    })
}

pub(crate) fn another(marker: Option<&GateMarker>, place: &Place) -> Error {
    let error = Error::new(ErrorKind::Conflict, "the namespace is marked otherwise");
    error.because_of(marker.map(|marker| refusal(marker, place)))
}

/// A URL that every client of the namespace may read.
pub(crate) fn checked(to: &str) -> Result<&str> {
    let bad = |why: String| Error::invalid("to", why);
    if to.is_empty() || to.len() > MAX_URL_BYTES {
        return Err(bad(format!("has {} bytes, 1 to {MAX_URL_BYTES} are allowed", to.len())));
    }
    check_visible("to", to)?;
    let config =
        Config::from_url(to).map_err(|error| bad("is not a URL of a coordinator".into()).because(error))?;
    match config.password.is_some() || config.sentinel_password.is_some() {
        true => Err(bad("has a password in it, and every client of the namespace may read it".into())),
        false => Ok(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_go_is_a_url_without_a_secret() {
        assert_eq!(checked("redis://cache:6380/2?namespace=billing").expect("a good URL").len(), 38);
        for (to, why) in [
            ("", "0 bytes"),
            ("redis://app:secret@cache", "a password"),
            ("redis-sentinel://a/service?sentinel_password=secret", "a password"),
            ("the new one", "not a URL"),
            ("redis://cache/\u{1b}", "control character"),
        ] {
            let error = checked(to).expect_err(to);
            assert_eq!(error.argument(), Some("to"), "{error}");
            assert!(error.to_string().contains(why), "{why:?} in {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(checked(&format!("redis://{}", "h".repeat(MAX_URL_BYTES))).is_err());
    }
}
