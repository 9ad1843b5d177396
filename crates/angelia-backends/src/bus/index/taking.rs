//! Delivers messages from a queue to its listener, and removes them when they are acknowledged.

use angelia_core::{
    model::{MessageId, bus::Message},
    ports::bus::{Delivery, Position, Watch},
};
use uuid::Uuid;

use super::{Index, Place, Slot};
use crate::bus::limits::MAX_TAKEN_BYTES;

/// The result of [`BusIndex::take`].
#[derive(Debug)]
pub(in crate::bus) enum Taken {
    Some(Vec<Delivery>),
    Nothing,
    /// The next messages are only on disk and must be read first.
    OnDisk(Vec<(u64, Place)>),
    Displaced,
}

/// A message that was taken, and the channel of the sender that is to be told.
pub(in crate::bus) type Notice = (Watch, MessageId);

impl Index {
    /// Moves messages from the front of the queue to the messages in flight.
    pub(in crate::bus) fn take(
        &mut self,
        slot: Slot,
        session: Uuid,
        limit: usize,
        now: i64,
    ) -> Taken {
        if !self.at(slot).is_session(session) {
            return Taken::Displaced;
        }
        self.expire(slot, now);
        let endpoint = self.at_mut(slot);
        let mut deliveries = Vec::new();
        let mut bytes = 0;
        while deliveries.len() < limit && bytes < MAX_TAKEN_BYTES {
            let Some(entry) = endpoint.waiting.front() else {
                break;
            };
            // Delivery is in order: a message that is only on disk holds up those behind it.
            let Some(message) = entry.message.clone() else {
                break;
            };
            bytes += entry.size;
            deliveries.push(Delivery {
                position: Position(entry.position),
                message,
                again: entry.again,
            });
            let Some(entry) = endpoint.waiting.pop_front() else {
                break;
            };
            endpoint.taken.push_back(entry);
        }
        if !deliveries.is_empty() {
            return Taken::Some(deliveries);
        }
        let mut places = Vec::new();
        for entry in endpoint.waiting.iter().take(limit) {
            let (Some(place), None) = (entry.place, &entry.message) else {
                break;
            };
            places.push((entry.position, place));
            bytes += entry.size;
            if bytes >= MAX_TAKEN_BYTES {
                break;
            }
        }
        if places.is_empty() { Taken::Nothing } else { Taken::OnDisk(places) }
    }

    /// Adds the content of a message that was only on disk. The caller takes it next, so the
    /// memory limit is not checked.
    pub(in crate::bus) fn read(&mut self, slot: Slot, position: u64, message: Message) {
        let Some(entry) = self.at_mut(slot).find_mut(position) else {
            return;
        };
        if entry.message.is_none() {
            entry.message = Some(message);
            let size = entry.size;
            self.cached += size;
        }
    }

    /// Drops a message that cannot be read at `location`. Returns `false` if the message has been
    /// copied to another location meanwhile.
    pub(in crate::bus) fn drop_if_at(&mut self, slot: Slot, position: u64, place: Place) -> bool {
        let waiting = &mut self.at_mut(slot).waiting;
        let Ok(found) = waiting.binary_search_by_key(&position, |entry| entry.position) else {
            return false;
        };
        if waiting[found].place != Some(place) {
            return false;
        }
        if let Some(entry) = waiting.remove(found) {
            self.forget(&entry);
        }
        true
    }

    /// Removes the messages that the listener acknowledges. Returns the positions that the storage
    /// must be told of, and adds the senders that must be told to `notices`.
    pub(in crate::bus) fn ack(
        &mut self,
        slot: Slot,
        session: Uuid,
        positions: &[Position],
        notices: &mut Vec<Notice>,
    ) -> Vec<u64> {
        let mut done = Vec::with_capacity(positions.len());
        if !self.at(slot).is_session(session) {
            return done;
        }
        for position in positions {
            let Some(mut entry) = self.at_mut(slot).remove_taken(position.0) else {
                continue;
            };
            self.forget(&entry);
            if let (Some(watch), Some(message)) = (entry.watch.take(), entry.message.take()) {
                notices.push((watch, message.id));
            }
            done.push(position.0);
        }
        self.counts.delivered += done.len() as u64;
        self.at_mut(slot).made_progress();
        done
    }

    /// Marks messages as written to a listener that does not acknowledge. Their senders are told
    /// now; the messages stay in flight until they are acknowledged.
    pub(in crate::bus) fn handed(
        &mut self,
        slot: Slot,
        positions: &[Position],
        notices: &mut Vec<Notice>,
    ) {
        let endpoint = self.at_mut(slot);
        for position in positions {
            let Ok(found) =
                endpoint.taken.binary_search_by_key(&position.0, |entry| entry.position)
            else {
                continue;
            };
            let entry = &mut endpoint.taken[found];
            entry.handed = true;
            if let (Some(watch), Some(message)) = (entry.watch.take(), &entry.message) {
                notices.push((watch, message.id.clone()));
            }
        }
    }
}
