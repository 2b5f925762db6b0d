use latchwork::Claim;
use latchwork_core::backend::QueueEntry;

/// `None`: the node at this index holds.
pub(super) fn waits_for(entries: &[QueueEntry], at: usize, limit: Option<u32>) -> Option<String> {
    let (ahead, own) = (&entries[..at], &entries[at]);
    if own.admitted {
        return None;
    }
    let behind = |entry: &QueueEntry, what: &str| format!("{what} {} to leave", entry.sequence);
    Some(match own.claim {
        Claim::Exclusive => ahead.last().map_or_else(about_to_hold, |before| behind(before, who(before))),
        Claim::Shared => {
            let writer = ahead.iter().rev().find(|entry| entry.claim == Claim::Exclusive);
            writer.map_or_else(about_to_hold, |writer| behind(writer, "writer"))
        }
        Claim::Permits(weight) => match ahead.iter().find(|entry| !entry.admitted) {
            Some(first) => format!("its turn after waiter {}", first.sequence),
            None => {
                let taken: u64 = ahead.iter().map(|entry| u64::from(entry.claim.weight())).sum();
                let free = limit.map(|limit| u64::from(limit).saturating_sub(taken));
                match free {
                    Some(free) if free >= u64::from(weight) => about_to_hold(),
                    Some(free) => {
                        format!("{weight} free permits, {free} {} free", if free == 1 { "is" } else { "are" })
                    }
                    None => format!("{weight} free permits"),
                }
            }
        },
    })
}

/// The server has not recorded the admission yet.
fn about_to_hold() -> String {
    "nothing: this waiter is about to hold".to_owned()
}

fn who(entry: &QueueEntry) -> &'static str {
    match (entry.admitted, entry.claim) {
        (true, Claim::Shared) => "reader",
        (true, _) => "holder",
        (false, _) => "waiter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(nodes: &[(Claim, bool)]) -> Vec<QueueEntry> {
        let entry = |(at, &(claim, admitted)): (usize, &(Claim, bool))| QueueEntry {
            sequence: at as u64 + 1,
            claim,
            admitted,
            label: String::new(),
            age: None,
            lease_left: None,
            data: [].into(),
        };
        nodes.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn each_waiter_has_its_reason() {
        use Claim::{Exclusive, Permits, Shared};
        let mutex = queue(&[(Exclusive, true), (Exclusive, false), (Exclusive, false)]);
        assert_eq!(waits_for(&mutex, 0, None), None);
        assert_eq!(waits_for(&mutex, 1, None).unwrap(), "holder 1 to leave");
        assert_eq!(waits_for(&mutex, 2, None).unwrap(), "waiter 2 to leave");
        let lock = queue(&[(Shared, true), (Exclusive, false), (Shared, false), (Shared, false)]);
        assert_eq!(waits_for(&lock, 1, None).unwrap(), "reader 1 to leave");
        assert_eq!(waits_for(&lock, 3, None).unwrap(), "writer 2 to leave");
        let semaphore = queue(&[(Permits(2), true), (Permits(2), false), (Permits(1), false)]);
        assert_eq!(waits_for(&semaphore, 1, Some(3)).unwrap(), "2 free permits, 1 is free");
        assert_eq!(waits_for(&semaphore, 2, Some(3)).unwrap(), "its turn after waiter 2");
        assert_eq!(waits_for(&semaphore, 1, Some(9)).unwrap(), "nothing: this waiter is about to hold");
    }
}
