//! Dead letters: messages that were accepted and will not be delivered any more.

use angelia_core::{
    model::{EndpointName, bus::Message},
    ports::bus::Position,
};
use uuid::Uuid;

use super::{Entry, Index, Place, Slot};
use crate::bus::limits::MAX_DEAD;

pub(in crate::bus) const EXPIRED: &str = "nobody received it in time";

#[derive(Clone, Debug)]
pub(in crate::bus) struct Dead {
    pub(in crate::bus) to: EndpointName,
    pub(in crate::bus) reason: String,
    /// Unix milliseconds.
    pub(in crate::bus) at: i64,
    pub(in crate::bus) size: usize,
    pub(in crate::bus) place: Option<Place>,
    /// Set only by a bus without a disk.
    pub(in crate::bus) message: Option<Message>,
}

impl Index {
    /// Turns the messages of one queue that have waited too long into dead letters, and returns
    /// how many there were. The queue is in order of age, so only its front is looked at.
    pub(super) fn expire(&mut self, slot: Slot, now: i64) -> usize {
        let ttl = self.limits.ttl_ms();
        let mut expired = 0;
        while let Some(entry) = self.at(slot).waiting.front()
            && now.saturating_sub(entry.at) >= ttl
        {
            let Some(entry) = self.at_mut(slot).waiting.pop_front() else {
                break;
            };
            let at = entry.at.saturating_add(ttl);
            self.bury(slot, entry, EXPIRED.to_owned(), at);
            expired += 1;
        }
        self.counts.expired += expired as u64;
        expired
    }

    /// Expires messages in every queue, and removes the oldest dead letters. Nothing is written:
    /// after a restart, expiry follows again from the time of acceptance.
    pub(in crate::bus) fn expire_all(&mut self, now: i64) {
        let mut expired = 0;
        for slot in 0..self.endpoints.len() {
            expired += self.expire(Slot::try_from(slot).unwrap_or(Slot::MAX), now);
        }
        if expired > 0 {
            tracing::warn!(messages = expired, "messages became dead letters: {EXPIRED}");
        }
        self.forget_oldest_dead(now);
    }

    /// Turns a message that the listener refuses into a dead letter. Returns `false` if the
    /// listener does not have the message.
    pub(in crate::bus) fn refuse(
        &mut self,
        slot: Slot,
        session: Uuid,
        position: Position,
        reason: &str,
        now: i64,
    ) -> bool {
        if !self.at(slot).is_session(session) {
            return false;
        }
        let Some(entry) = self.at_mut(slot).remove_taken(position.0) else {
            return false;
        };
        self.at_mut(slot).made_progress();
        self.bury(slot, entry, reason.to_owned(), now);
        true
    }

    fn bury(&mut self, slot: Slot, entry: Entry, reason: String, at: i64) {
        self.forget(&entry);
        let dead = Dead {
            to: self.at(slot).name.clone(),
            reason,
            at,
            size: entry.size,
            place: entry.place,
            message: entry.message.filter(|_| entry.place.is_none()),
        };
        self.enter_dead(entry.position, dead);
    }

    pub(in crate::bus) fn enter_dead(&mut self, position: u64, dead: Dead) {
        if let Some(place) = dead.place {
            let used = self.used.entry(place.segment).or_default();
            used.messages += 1;
            used.bytes += dead.size;
        }
        self.dead.insert(position, dead);
    }

    /// Removes dead letters that are older than the message TTL, and the oldest ones beyond
    /// [`MAX_DEAD_LETTERS`]. They are looked at in order of position, that is of acceptance, which
    /// is nearly the order in which they became dead letters.
    fn forget_oldest_dead(&mut self, now: i64) {
        let ttl = self.limits.ttl_ms();
        while let Some((position, dead)) = self.dead.first_key_value()
            && (self.dead.len() > MAX_DEAD || now.saturating_sub(dead.at) >= ttl)
        {
            let position = *position;
            self.remove_dead(position);
        }
    }

    pub(in crate::bus) fn remove_dead(&mut self, position: u64) -> Option<Dead> {
        let dead = self.dead.remove(&position)?;
        if let Some(place) = dead.place {
            self.unuse(place.segment, dead.size);
        }
        Some(dead)
    }

    pub(in crate::bus) fn dead(&self, position: u64) -> Option<&Dead> {
        self.dead.get(&position)
    }

    /// Returns at most `limit` dead letters below the position `before`, newest first.
    pub(in crate::bus) fn dead_before(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<(u64, Dead)> {
        self.dead
            .range(..before.unwrap_or(u64::MAX))
            .rev()
            .take(limit)
            .map(|(position, dead)| (*position, dead.clone()))
            .collect()
    }

    /// Returns where on disk a message is, or `None` if it need not be kept any longer.
    pub(in crate::bus) fn place_of(&self, to: &EndpointName, position: u64) -> Option<Place> {
        if let Some(dead) = self.dead.get(&position) {
            return dead.place;
        }
        self.known(to.as_str())?.find(position)?.place
    }

    /// Notes that a message has been copied to the end of the log.
    pub(in crate::bus) fn moved(&mut self, to: &EndpointName, position: u64, place: Place) {
        let (old, size) = if let Some(dead) = self.dead.get_mut(&position) {
            (dead.place.replace(place), dead.size)
        } else {
            let slot = self.slot(to);
            match self.at_mut(slot).find_mut(position) {
                Some(entry) => (entry.place.replace(place), entry.size),
                None => return,
            }
        };
        if let Some(old) = old {
            self.unuse(old.segment, size);
        }
        let used = self.used.entry(place.segment).or_default();
        used.messages += 1;
        used.bytes += size;
    }
}
