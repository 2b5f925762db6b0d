//! The stored limit of a queue of permits: the data of a plain node beside the queue's directory, as a decimal number.

use latchwork_core::contracts::Join;
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, Result};

use crate::driver::Mode;
use crate::error::Fault;
use crate::lease::Session;
use crate::nodes::{Site, overtaken};

/// The limit that counts, stored by the first who names one.
pub(crate) async fn settle_limit(
    session: &Session,
    site: &Site,
    join: &Join,
    found: Option<std::result::Result<Vec<u8>, Fault>>,
) -> Result<u32> {
    let (Some(path), Claim::Permits(weight)) = (&site.limit, join.claim) else { return Ok(0) };
    let fail = |fault: Fault| overtaken(session, fault, "read the stored limit");
    let mut found = found;
    let stored = loop {
        match (found.take(), join.limit) {
            (Some(Ok(data)), _) => break parse(&data)?,
            (Some(Err(Fault::NoNode)), Some(asked)) => {
                match session.driver.create(path, asked.to_string().as_bytes(), Mode::Persistent).await {
                    Ok(_) => break asked,
                    Err(Fault::NodeExists) => {}
                    Err(Fault::NoNode) => {
                        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                        session.driver.make_path(parent, Mode::Persistent).await.map_err(fail)?;
                    }
                    Err(fault) => return Err(fail(fault)),
                }
            }
            (Some(Err(Fault::NoNode)), None) => {
                return Err(Error::new(ErrorKind::Conflict, "no limit is stored, and none was given"));
            }
            (Some(Err(fault)), _) => return Err(fail(fault)),
            (None, _) => {}
        }
        found = Some(session.driver.read(path).await.map(|(data, _)| data));
    };
    if join.limit.is_some_and(|asked| asked != stored) || weight > stored {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("the stored limit is {stored}, asked for {:?} with weight {weight}", join.limit),
        ));
    }
    Ok(stored)
}

/// The stored limit, `None` where there is none.
pub(crate) async fn read_limit(session: &Session, site: &Site) -> std::result::Result<Option<u32>, Fault> {
    let Some(path) = &site.limit else { return Ok(None) };
    match session.driver.read(path).await {
        // What is no number admits nobody.
        Ok((data, _)) => Ok(Some(parse(&data).unwrap_or(0))),
        Err(Fault::NoNode) => Ok(None),
        Err(fault) => Err(fault),
    }
}

pub(crate) fn parse(data: &[u8]) -> Result<u32> {
    std::str::from_utf8(data).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::new(
            ErrorKind::Conflict,
            format!("the stored limit {:?} is no number", String::from_utf8_lossy(data)),
        )
    })
}
