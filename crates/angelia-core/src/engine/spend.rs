//! Reserves money for the turns of accounts that have a spending limit.
//!
//! The store knows what finished turns have cost. Turns that run at the same time would all see the
//! same free amount there, so each turn reserves a share before it is accepted. The reservation
//! grows as long as the limit has room, and is settled once the turn has ended and its cost is
//! stored.
//!
//! An account is a caller with its own turns, plus the turns that its agents have delegated.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::facade::EngineError;
use crate::{
    model::{Failure, FailureKind, TurnOptions},
    ports::{Clock, Store},
};

/// The share of the limit that a turn without its own limit reserves.
const DEFAULT_SHARE: f64 = 0.1;

/// Smaller amounts count as zero, because float sums leave such remainders.
const SMALLEST_USD: f64 = 1e-6;

/// How long to wait before the next attempt when the limit is reached. The oldest turns leave the
/// period only slowly, but a running turn may end at any time.
const RETRY_WHEN_SPENT: Duration = Duration::from_hours(1);
const RETRY_WHEN_RESERVED: Duration = Duration::from_secs(10);

/// A limit on the spending of a caller within a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpendLimit {
    pub usd: f64,
    /// The length of the period, which ends now.
    pub period: Duration,
}

/// The reservations of all accounts.
#[derive(Debug, Default)]
pub(super) struct SpendLedger {
    accounts: Mutex<HashMap<Arc<str>, SpendAccount>>,
}

/// The spending of one account.
#[derive(Debug, Default)]
struct SpendAccount {
    /// The limit that the caller stated with its last turn. It also applies to work that the
    /// caller's agents delegate, which states no limit.
    limit: Option<SpendLimit>,
    /// Cost of the finished turns: as last read from the store, plus the settlements since then.
    spent_usd: f64,
    reserved_usd: f64,
    open_reservations: usize,
    /// Number of settled reservations. A change means that a sum read from the store before is
    /// outdated.
    settlements: u64,
}

impl SpendAccount {
    /// Returns the amount that is neither spent nor reserved. Negative if turns have cost more than
    /// the limit.
    fn free_usd(&self, limit: SpendLimit) -> f64 {
        limit.usd - self.spent_usd - self.reserved_usd
    }
}

impl SpendLedger {
    /// Reserves money for one turn if its account has a limit: `wanted_usd` or a share of the
    /// limit, but no more than is free. Fails if nothing is free.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        (store, clock): (&dyn Store, &dyn Clock),
        options: &TurnOptions,
        stated_limit: Option<SpendLimit>,
        wanted_usd: Option<f64>,
    ) -> Result<Option<Arc<SpendReservation>>, EngineError> {
        let Some(name) = options.account() else {
            return Ok(None);
        };
        let Some(limit) = self.limit_of(name, options, stated_limit) else {
            return Ok(None);
        };
        let share = limit.usd * DEFAULT_SHARE;
        let wanted_usd = match wanted_usd {
            // A delegated turn asks for everything that its sender has left, which would leave
            // nothing for others.
            Some(wanted) if options.charged_to.is_some() => wanted.min(share),
            Some(wanted) => wanted,
            None => share,
        };
        let amount = loop {
            let settlements = self.settlements(name);
            let since = clock.now().checked_sub(limit.period).unwrap_or(jiff::Timestamp::MIN);
            let spent_usd = store.cost_since(name, since).await?;
            let mut accounts = self.accounts.lock();
            let account = accounts.entry(Arc::clone(name)).or_default();
            if account.settlements != settlements {
                // A turn was settled in the meantime, so its cost may be in neither sum.
                continue;
            }
            account.spent_usd = spent_usd;
            let free_usd = account.free_usd(limit);
            if free_usd < SMALLEST_USD {
                return Err(limit_reached(account, limit).into());
            }
            let amount = wanted_usd.min(free_usd);
            account.reserved_usd += amount;
            account.open_reservations += 1;
            break amount;
        };
        Ok(Some(Arc::new(SpendReservation {
            ledger: Arc::clone(self),
            account: Arc::clone(name),
            limit,
            amounts: Mutex::new(ReservedAmounts { reserved_usd: amount, cost_usd: 0.0 }),
        })))
    }

    /// Returns the limit of a turn: the stated one, or the account's last one if the turn was
    /// delegated.
    fn limit_of(
        &self,
        name: &Arc<str>,
        options: &TurnOptions,
        stated: Option<SpendLimit>,
    ) -> Option<SpendLimit> {
        let mut accounts = self.accounts.lock();
        if options.charged_to.is_some() {
            return stated.or_else(|| accounts.get(name)?.limit);
        }
        if stated.is_some() || accounts.contains_key(name) {
            accounts.entry(Arc::clone(name)).or_default().limit = stated;
        }
        stated
    }

    /// Returns the number of settled turns of this account.
    fn settlements(&self, name: &Arc<str>) -> u64 {
        self.accounts.lock().get(name).map_or(0, |account| account.settlements)
    }
}

fn limit_reached(account: &SpendAccount, limit: SpendLimit) -> Failure {
    let message = format!(
        "this key has reached its cost limit for {} hours: ${:.2} of ${:.2} are spent, ${:.2} are \
         reserved for its running turns",
        limit.period.as_secs() / 3600,
        account.spent_usd,
        limit.usd,
        account.reserved_usd,
    );
    let mut failure = Failure::new(FailureKind::RateLimited, message)
        .with_hint("wait, or ask the owner to raise `max_cost_usd_per_day` in http.keys");
    let is_spent = account.spent_usd >= limit.usd;
    failure.retry_after = Some(if is_spent { RETRY_WHEN_SPENT } else { RETRY_WHEN_RESERVED });
    failure
}

/// Money reserved for one turn. Dropping it settles the account, so drop it only after the turn's
/// cost is stored.
#[derive(Debug)]
pub(super) struct SpendReservation {
    ledger: Arc<SpendLedger>,
    account: Arc<str>,
    limit: SpendLimit,
    amounts: Mutex<ReservedAmounts>,
}

#[derive(Debug)]
struct ReservedAmounts {
    reserved_usd: f64,
    /// Cost of the turn so far.
    cost_usd: f64,
}

impl SpendReservation {
    /// Sets the cost of the turn so far, and reserves more if it exceeds the reservation. Returns
    /// whether the reservation still covers the cost.
    pub(super) fn set_cost(&self, cost_usd: f64) -> bool {
        let mut amounts = self.amounts.lock();
        amounts.cost_usd = cost_usd;
        if cost_usd < amounts.reserved_usd {
            return true;
        }
        let mut accounts = self.ledger.accounts.lock();
        let Some(account) = accounts.get_mut(&self.account) else {
            return false;
        };
        let missing = cost_usd - amounts.reserved_usd;
        let has_room = account.free_usd(self.limit) > missing;
        // The money has been spent, whether or not there was room for it.
        account.reserved_usd += missing;
        amounts.reserved_usd = cost_usd;
        has_room
    }

    /// Returns the amount that the turn can still spend: the rest of its reservation plus the free
    /// amount.
    pub(super) fn spendable_usd(&self) -> f64 {
        let amounts = self.amounts.lock();
        let accounts = self.ledger.accounts.lock();
        let free = accounts.get(&self.account).map_or(0.0, |account| account.free_usd(self.limit));
        amounts.reserved_usd - amounts.cost_usd + free
    }
}

impl Drop for SpendReservation {
    fn drop(&mut self) {
        let amounts = self.amounts.get_mut();
        let mut accounts = self.ledger.accounts.lock();
        let Some(account) = accounts.get_mut(&self.account) else {
            return;
        };
        account.spent_usd += amounts.cost_usd;
        account.reserved_usd -= amounts.reserved_usd;
        account.settlements += 1;
        account.open_reservations -= 1;
        if account.open_reservations == 0 {
            // Clear the remainder that float sums leave.
            account.reserved_usd = 0.0;
        }
    }
}
