//! Delivers messages from a queue to its listener, and removes them when they are acknowledged.

use angelia_core::{
    model::{EndpointName, MessageId, bus::BusMessage},
    ports::bus::{BusDelivery, BusPosition, DeliveryNotifier},
};
use uuid::Uuid;

use super::{BusIndex, EndpointSlot, LogLocation};
use crate::bus::limits::MAX_TAKE_BYTES;

/// The result of [`BusIndex::take`].
#[derive(Debug)]
pub(in crate::bus) enum TakeResult {
    Deliveries(Vec<BusDelivery>),
    Empty,
    /// The next messages are only on disk and must be read first.
    OnDisk(Vec<(u64, LogLocation)>),
    Displaced,
}

/// A message in a queue, as it is looked at.
#[derive(Debug)]
pub(in crate::bus) struct PeekedEntry {
    pub(in crate::bus) position: u64,
    /// Unix milliseconds.
    pub(in crate::bus) accepted_at_ms: i64,
    pub(in crate::bus) is_taken: bool,
    /// `None`: the message is only on disk.
    pub(in crate::bus) message: Option<BusMessage>,
    pub(in crate::bus) location: Option<LogLocation>,
}

/// A message that was taken, and the channel of the sender that is to be told.
pub(in crate::bus) type DeliveryNotice = (DeliveryNotifier, MessageId);

impl BusIndex {
    /// Looks at the oldest messages of an endpoint, and takes none.
    pub(in crate::bus) fn peek(&self, name: &EndpointName, limit: usize) -> Vec<PeekedEntry> {
        let Some(endpoint) = self.find_endpoint(name.as_str()) else { return Vec::new() };
        let taken = endpoint.in_flight.iter().map(|entry| (entry, true));
        let waiting = endpoint.waiting.iter().map(|entry| (entry, false));
        let peeked = taken.chain(waiting).take(limit).map(|(entry, is_taken)| PeekedEntry {
            position: entry.position,
            accepted_at_ms: entry.accepted_at_ms,
            is_taken,
            message: entry.message.clone(),
            location: entry.location,
        });
        peeked.collect()
    }

    /// Moves messages from the front of the queue to the messages in flight.
    pub(in crate::bus) fn take(
        &mut self,
        slot: EndpointSlot,
        session: Uuid,
        limit: usize,
        now: i64,
    ) -> TakeResult {
        if !self.endpoint(slot).is_held_by(session) {
            return TakeResult::Displaced;
        }
        self.expire_queue(slot, now);
        let endpoint = self.endpoint_mut(slot);
        let mut deliveries = Vec::new();
        let mut bytes = 0;
        while deliveries.len() < limit && bytes < MAX_TAKE_BYTES {
            let Some(entry) = endpoint.waiting.front() else {
                break;
            };
            // Delivery is in order: a message that is only on disk holds up those behind it.
            let Some(message) = entry.message.clone() else {
                break;
            };
            bytes += entry.size;
            deliveries.push(BusDelivery {
                position: BusPosition(entry.position),
                message,
                redelivered: entry.redelivered,
            });
            let Some(entry) = endpoint.waiting.pop_front() else {
                break;
            };
            endpoint.in_flight.push_back(entry);
        }
        if !deliveries.is_empty() {
            return TakeResult::Deliveries(deliveries);
        }
        let mut places = Vec::new();
        for entry in endpoint.waiting.iter().take(limit) {
            let (Some(place), None) = (entry.location, &entry.message) else {
                break;
            };
            places.push((entry.position, place));
            bytes += entry.size;
            if bytes >= MAX_TAKE_BYTES {
                break;
            }
        }
        if places.is_empty() { TakeResult::Empty } else { TakeResult::OnDisk(places) }
    }

    /// Adds the content of a message that was only on disk. The caller takes it next, so the
    /// memory limit is not checked.
    pub(in crate::bus) fn cache_message(
        &mut self,
        slot: EndpointSlot,
        position: u64,
        message: BusMessage,
    ) {
        let Some(entry) = self.endpoint_mut(slot).find_mut(position) else {
            return;
        };
        if entry.message.is_none() {
            entry.message = Some(message);
            let size = entry.size;
            self.cached_bytes += size;
        }
    }

    /// Drops a message that cannot be read at `location`. Returns `false` if the message has been
    /// copied to another location meanwhile.
    pub(in crate::bus) fn drop_if_at(
        &mut self,
        slot: EndpointSlot,
        position: u64,
        place: LogLocation,
    ) -> bool {
        let waiting = &mut self.endpoint_mut(slot).waiting;
        let Ok(found) = waiting.binary_search_by_key(&position, |entry| entry.position) else {
            return false;
        };
        if waiting[found].location != Some(place) {
            return false;
        }
        if let Some(entry) = waiting.remove(found) {
            self.release_entry(&entry);
        }
        true
    }

    /// Removes the messages that the listener acknowledges. Returns the positions that the storage
    /// must be told of, and adds the senders that must be told to `notices`.
    pub(in crate::bus) fn ack(
        &mut self,
        slot: EndpointSlot,
        session: Uuid,
        positions: &[BusPosition],
        notices: &mut Vec<DeliveryNotice>,
    ) -> Vec<u64> {
        let mut done = Vec::with_capacity(positions.len());
        if !self.endpoint(slot).is_held_by(session) {
            return done;
        }
        for position in positions {
            let Some(mut entry) = self.endpoint_mut(slot).remove_in_flight(position.0) else {
                continue;
            };
            self.release_entry(&entry);
            if let (Some(watch), Some(message)) = (entry.watch.take(), entry.message.take()) {
                notices.push((watch, message.id));
            }
            done.push(position.0);
        }
        self.counts.delivered += done.len() as u64;
        self.endpoint_mut(slot).note_progress();
        done
    }

    /// Marks messages as written to a listener that does not acknowledge. Their senders are told
    /// now; the messages stay in flight until they are acknowledged.
    pub(in crate::bus) fn mark_written(
        &mut self,
        slot: EndpointSlot,
        positions: &[BusPosition],
        notices: &mut Vec<DeliveryNotice>,
    ) {
        let endpoint = self.endpoint_mut(slot);
        for position in positions {
            let Ok(found) =
                endpoint.in_flight.binary_search_by_key(&position.0, |entry| entry.position)
            else {
                continue;
            };
            let entry = &mut endpoint.in_flight[found];
            entry.is_written = true;
            if let (Some(watch), Some(message)) = (entry.watch.take(), &entry.message) {
                notices.push((watch, message.id.clone()));
            }
        }
    }
}
