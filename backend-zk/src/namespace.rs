use latchwork_core::{Error, ErrorKind, Kind, Result, seen};

use crate::config::{NAME, Settings};
use crate::driver::{Driver, Grant, NodeMode, Stat};
use crate::error::{Fault, Unanswered};
use crate::layout::{RELEASED, cell_directories, directories, split};
use crate::queue::{believes_announcements, is_open};

pub(crate) async fn make_member(driver: &Driver, settings: &Settings, member: &str) -> Result<Stat> {
    let paths = directories(&settings.namespace);
    let root = shown(settings, "");
    let found = driver.read_all(&paths).await;
    let found = found.map_err(|fault| {
        fault.error_without_trace(&format!("read the namespace {root}/{}", settings.namespace))
    })?;
    for (path, _) in paths.iter().zip(found).filter(|(_, found)| found.is_none()) {
        let made = driver.make_path(path, NodeMode::Persistent).await;
        if split(path).1 == RELEASED && matches!(made, Err(Fault::Forbidden(_))) {
            let what = "this login may not create the directory: releases are not announced, and a waiter after several others lists the queue";
            seen::advice(NAME, path, &what);
            continue;
        }
        made.map_err(|fault| fault.error_without_trace(&format!("create {}", shown(settings, path))))?;
    }
    let made = driver.create(member, settings.label.as_bytes(), NodeMode::Ephemeral).await;
    made.map_err(|fault| fault.error_without_trace(&format!("create {}", shown(settings, member))))
}

/// Returns whether the client believes announced releases. Warns if the client has a login and a directory
/// trusts every client.
pub(crate) async fn trusted(driver: &Driver, settings: &Settings) -> Result<bool> {
    let mut paths = directories(&settings.namespace);
    paths.extend(cell_directories(&settings.namespace));
    paths.push(format!("/{}", settings.namespace));
    let root = shown(settings, "");
    let found = driver.grants(&paths).await.map_err(|fault| {
        fault.error_without_trace(&format!("read the ACLs of the namespace {root}/{}", settings.namespace))
    })?;
    let open = |found: &Option<Vec<Grant>>| found.as_deref().is_some_and(is_open);
    let unguarded: Vec<_> =
        paths.iter().zip(&found).filter(|(_, found)| open(found)).map(|(path, _)| path.as_str()).collect();
    if settings.logins.are_given() && !unguarded.is_empty() {
        let namespace = format!("{root}/{}", settings.namespace);
        let what = format!(
            "the login does not protect this namespace: these directories were created without it, so every client may delete \
             their nodes: {}. Set their ACLs (zkCli: addauth digest user:password, then setAcl -R {namespace} auth::cdrwa)",
            unguarded.join(" "),
        );
        seen::advice(NAME, &namespace, &what);
    }
    let grants = |name: &str| {
        let at = paths.iter().position(|path| split(path).1 == name)?;
        found[at].as_deref()
    };
    Ok(believes_announcements(grants(RELEASED), grants(Kind::Mutex.as_str())))
}

fn shown(settings: &Settings, path: &str) -> String {
    format!("{}{path}", settings.chroot.as_deref().unwrap_or_default())
}

pub(crate) fn connect_error(fault: Fault, settings: &Settings) -> Error {
    let with_chroot = |what: &str| match &settings.chroot {
        Some(chroot) => format!("{what} the chroot {chroot}"),
        None => "log in".to_owned(),
    };
    match fault {
        Fault::NoLogin(error) => error,
        Fault::Forbidden(_) => fault.error(&with_chroot("log in, or create")),
        Fault::Refused(_) => fault.error(&with_chroot("use")),
        Fault::NoNode | Fault::NodeExists => fault.error(&with_chroot("create")),
        other => {
            let hosts = settings.hosts.join(",");
            let error = Error::new(ErrorKind::Unavailable, format!("could not open a session at {hosts}"));
            match other {
                Fault::Unknown(Unanswered { answer: Some(answer), .. }) => error.because(answer),
                _ => error,
            }
        }
    }
}
