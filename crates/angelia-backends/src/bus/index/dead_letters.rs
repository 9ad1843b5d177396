//! Dead letters: messages that were accepted and will not be delivered any more.

use angelia_core::{
    model::{EndpointName, bus::BusMessage},
    ports::bus::BusPosition,
};
use uuid::Uuid;

use super::{BusIndex, EndpointSlot, LogLocation, QueueEntry};
use crate::bus::limits::MAX_DEAD_LETTERS;

pub(in crate::bus) const EXPIRED_REASON: &str = "nobody received it in time";

#[derive(Clone, Debug)]
pub(in crate::bus) struct DeadEntry {
    pub(in crate::bus) to: EndpointName,
    pub(in crate::bus) reason: String,
    /// Unix milliseconds.
    pub(in crate::bus) died_at_ms: i64,
    pub(in crate::bus) size: usize,
    pub(in crate::bus) location: Option<LogLocation>,
    /// Set only by a bus without a disk.
    pub(in crate::bus) message: Option<BusMessage>,
}

impl BusIndex {
    /// Turns the messages of one queue that have waited too long into dead letters, and returns
    /// how many there were. The queue is in order of age, so only its front is looked at.
    pub(super) fn expire_queue(&mut self, slot: EndpointSlot, now: i64) -> usize {
        let ttl = self.limits.ttl_ms();
        let mut expired = 0;
        while let Some(entry) = self.endpoint(slot).waiting.front()
            && now.saturating_sub(entry.accepted_at_ms) >= ttl
        {
            let Some(entry) = self.endpoint_mut(slot).waiting.pop_front() else {
                break;
            };
            let at = entry.accepted_at_ms.saturating_add(ttl);
            self.move_to_dead_letters(slot, entry, EXPIRED_REASON.to_owned(), at);
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
            expired +=
                self.expire_queue(EndpointSlot::try_from(slot).unwrap_or(EndpointSlot::MAX), now);
        }
        if expired > 0 {
            tracing::warn!(messages = expired, "messages became dead letters: {EXPIRED_REASON}");
        }
        self.remove_old_dead_letters(now);
    }

    /// Turns a message that the listener refuses into a dead letter. Returns `false` if the
    /// listener does not have the message.
    pub(in crate::bus) fn refuse(
        &mut self,
        slot: EndpointSlot,
        session: Uuid,
        position: BusPosition,
        reason: &str,
        now: i64,
    ) -> bool {
        if !self.endpoint(slot).is_held_by(session) {
            return false;
        }
        let Some(entry) = self.endpoint_mut(slot).remove_in_flight(position.0) else {
            return false;
        };
        self.endpoint_mut(slot).note_progress();
        self.move_to_dead_letters(slot, entry, reason.to_owned(), now);
        true
    }

    fn move_to_dead_letters(
        &mut self,
        slot: EndpointSlot,
        entry: QueueEntry,
        reason: String,
        at: i64,
    ) {
        self.release_entry(&entry);
        let dead = DeadEntry {
            to: self.endpoint(slot).name.clone(),
            reason,
            died_at_ms: at,
            size: entry.size,
            location: entry.location,
            message: entry.message.filter(|_| entry.location.is_none()),
        };
        self.insert_dead_letter(entry.position, dead);
    }

    pub(in crate::bus) fn insert_dead_letter(&mut self, position: u64, dead: DeadEntry) {
        if let Some(place) = dead.location {
            let used = self.segment_usage.entry(place.segment).or_default();
            used.messages += 1;
            used.bytes += dead.size;
        }
        self.dead_letters.insert(position, dead);
    }

    /// Removes dead letters that are older than the message TTL, and the oldest ones beyond
    /// [`MAX_DEAD_LETTERS`]. They are looked at in order of position, that is of acceptance, which
    /// is nearly the order in which they became dead letters.
    fn remove_old_dead_letters(&mut self, now: i64) {
        let ttl = self.limits.ttl_ms();
        while let Some((position, dead)) = self.dead_letters.first_key_value()
            && (self.dead_letters.len() > MAX_DEAD_LETTERS
                || now.saturating_sub(dead.died_at_ms) >= ttl)
        {
            let position = *position;
            self.remove_dead_letter(position);
        }
    }

    pub(in crate::bus) fn remove_dead_letter(&mut self, position: u64) -> Option<DeadEntry> {
        let dead = self.dead_letters.remove(&position)?;
        if let Some(place) = dead.location {
            self.release_segment_bytes(place.segment, dead.size);
        }
        Some(dead)
    }

    pub(in crate::bus) fn dead_letter(&self, position: u64) -> Option<&DeadEntry> {
        self.dead_letters.get(&position)
    }

    /// Returns at most `limit` dead letters below the position `before`, newest first.
    pub(in crate::bus) fn dead_letters_before(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<(u64, DeadEntry)> {
        self.dead_letters
            .range(..before.unwrap_or(u64::MAX))
            .rev()
            .take(limit)
            .map(|(position, dead)| (*position, dead.clone()))
            .collect()
    }

    /// Returns the location of a message on disk, or `None` if it need not be kept any longer.
    pub(in crate::bus) fn location_of(
        &self,
        to: &EndpointName,
        position: u64,
    ) -> Option<LogLocation> {
        if let Some(dead) = self.dead_letters.get(&position) {
            return dead.location;
        }
        self.find_endpoint(to.as_str())?.find(position)?.location
    }

    /// Notes that a message has been copied to the end of the log.
    pub(in crate::bus) fn set_location(
        &mut self,
        to: &EndpointName,
        position: u64,
        place: LogLocation,
    ) {
        let (old, size) = if let Some(dead) = self.dead_letters.get_mut(&position) {
            (dead.location.replace(place), dead.size)
        } else {
            let slot = self.slot_or_insert(to);
            match self.endpoint_mut(slot).find_mut(position) {
                Some(entry) => (entry.location.replace(place), entry.size),
                None => return,
            }
        };
        if let Some(old) = old {
            self.release_segment_bytes(old.segment, size);
        }
        let used = self.segment_usage.entry(place.segment).or_default();
        used.messages += 1;
        used.bytes += size;
    }
}
