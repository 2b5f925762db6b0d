//! A transfer locks two accounts as one, and no two transfers deadlock.
//!
//! ```text
//! cargo run --example lock_many                        # on memory
//! cargo run --example lock_many -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! Tellers name the accounts in the order of the transfer: from, to. With one lock after the other in this
//! order, they would soon deadlock. A `MultiLock` acquires in one order for all clients.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Coordinator, MultiLock, Result, Token};

const TELLERS: usize = 4;
const TRANSFERS: usize = 10;
const ACCOUNTS: usize = 5;
const BALANCE: i64 = 100;

/// A holder claims it before it reads.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    balance: i64,
    fence: Option<Token>,
}

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://bank".to_owned());
    // Random for this example. A service has fixed keys.
    let run = uuid::Uuid::new_v4();
    let bank = Mutex::new([Account { balance: BALANCE, fence: None }; ACCOUNTS]);
    let tellers = try_join_all((0..TELLERS).map(|_| latchwork::connect(&url))).await?;
    let key = |account: usize| format!("account/{run}/{account}");

    try_join_all(tellers.iter().enumerate().map(|(teller, coordinator)| {
        let (bank, key) = (&bank, &key);
        async move {
            for round in 0..TRANSFERS {
                let from = (teller + round * (teller + 1)) % ACCOUNTS;
                let to = (from + 1 + round % (ACCOUNTS - 1)) % ACCOUNTS;
                transfer(coordinator, bank, [(from, key(from)), (to, key(to))]).await?;
            }
            Ok::<_, latchwork::Error>(())
        }
    }))
    .await?;

    let accounts = *bank.lock().expect("no panic");
    let balances: Vec<_> = accounts.iter().map(|account| account.balance).collect();
    let total: i64 = balances.iter().sum();
    println!("{TELLERS} tellers made {TRANSFERS} transfers each: {balances:?}, {total} in all");
    assert_eq!(total, BALANCE * i64::try_from(ACCOUNTS).expect("few"), "money was made or lost");
    for coordinator in tellers {
        coordinator.close().await?;
    }
    Ok(())
}

async fn transfer(
    coordinator: &Coordinator,
    bank: &Mutex<[Account; ACCOUNTS]>,
    accounts: [(usize, String); 2],
) -> Result<()> {
    let members: Result<Vec<_>> = accounts.iter().map(|(_, key)| coordinator.mutex(key)).collect();
    let both = MultiLock::new(members?)?;
    let hold = both.acquire().within(Duration::from_secs(30)).await?;
    // The tokens are in the order of the accounts. Claim, read, write: see `fenced_write`.
    let tokens = hold.tokens();
    let before = {
        let mut bank = bank.lock().expect("no panic");
        for ((account, _), token) in accounts.iter().zip(&tokens) {
            assert!(bank[*account].fence < *token, "a later holder has claimed the account");
            bank[*account].fence = *token;
        }
        *bank
    };
    // Without the lock, another transfer would be overwritten.
    tokio::time::sleep(Duration::from_millis(2)).await;
    hold.check()?;
    {
        let mut bank = bank.lock().expect("no panic");
        for (((account, _), change), token) in accounts.iter().zip([-1, 1]).zip(tokens) {
            assert!(bank[*account].fence == token, "a later holder has claimed the account");
            bank[*account].balance = before[*account].balance + change;
        }
    }
    hold.release().await?;
    Ok(())
}
