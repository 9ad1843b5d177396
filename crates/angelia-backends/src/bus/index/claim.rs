//! Attaches a listener to an endpoint name. The decision is a single step under the index's lock,
//! so that two listeners that start together never share a name.

use std::{collections::VecDeque, sync::Arc};

use angelia_core::{
    model::EndpointName,
    ports::bus::{AttachError, AttachRequest, NameConflictPolicy},
};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    BusIndex, EndpointSlot,
    endpoint::{AttachedListener, EndpointRecord, QueueEntry},
};

/// A listener that has been attached to an endpoint.
#[derive(Debug)]
pub(in crate::bus) struct Attachment {
    pub(in crate::bus) slot: EndpointSlot,
    pub(in crate::bus) name: EndpointName,
    pub(in crate::bus) wakeup: Arc<Notify>,
    /// Messages that were handed to the displaced listener: it will read them, so they need not be
    /// delivered again.
    pub(in crate::bus) finished_positions: Vec<u64>,
    /// The endpoint's record, if it has changed and must be saved.
    pub(in crate::bus) changed_record: Option<EndpointRecord>,
}

/// Far more listeners of one name than a person runs.
const MAX_NAME_SUFFIX: u32 = 10_000;

impl BusIndex {
    /// Attaches the listener `session`. `token` is the hash of the claim's token.
    pub(in crate::bus) fn attach_listener(
        &mut self,
        claim: &AttachRequest,
        token: Option<[u8; 32]>,
        session: Uuid,
    ) -> Result<Attachment, AttachError> {
        let name = self.choose_name(claim, token)?;
        let slot = self.slot_or_insert(&name);
        let done = self.remove_written(slot);
        let endpoint = self.endpoint_mut(slot);
        endpoint.requeue_in_flight();
        let news = Arc::new(Notify::new());
        if !endpoint.waiting.is_empty() {
            news.notify_one();
        }
        let new = AttachedListener { session, wakeup: Arc::clone(&news) };
        // Woken, so that the displaced listener notices that it has lost the name.
        if let Some(displaced) = endpoint.listener.replace(new) {
            displaced.wakeup.notify_one();
        }
        endpoint.note_progress();
        let standing = EndpointRecord {
            seen: true,
            durable: claim.durable || endpoint.record.durable,
            token: token.or(endpoint.record.token),
        };
        let changed = (standing != endpoint.record).then(|| standing.clone());
        endpoint.record = standing;
        Ok(Attachment {
            slot,
            name,
            wakeup: news,
            finished_positions: done,
            changed_record: changed,
        })
    }

    /// Removes the messages that were handed to a listener that does not acknowledge, and returns
    /// their positions.
    fn remove_written(&mut self, slot: EndpointSlot) -> Vec<u64> {
        let taken = std::mem::take(&mut self.endpoint_mut(slot).in_flight);
        let (handed, kept) = taken.into_iter().partition(|entry| entry.is_written);
        self.endpoint_mut(slot).in_flight = kept;
        let handed: VecDeque<QueueEntry> = handed;
        for entry in &handed {
            self.release_entry(entry);
        }
        handed.iter().map(|entry| entry.position).collect()
    }

    /// Returns the name that the claim gets: its own, or that name with the lowest free suffix.
    fn choose_name(
        &self,
        claim: &AttachRequest,
        token: Option<[u8; 32]>,
    ) -> Result<EndpointName, AttachError> {
        let is_free = |name: &EndpointName| {
            let endpoint = self.find_endpoint(name.as_str());
            endpoint.is_none_or(|endpoint| {
                endpoint.listener.is_none() && allows_token(&endpoint.record, token)
            })
        };
        match claim.on_conflict {
            NameConflictPolicy::Suffix => {
                let suffixed = (2..=MAX_NAME_SUFFIX).filter_map(|n| claim.name.with_suffix(n).ok());
                std::iter::once(claim.name.clone())
                    .chain(suffixed)
                    .find(is_free)
                    .ok_or_else(|| AttachError::NoSuffix(claim.name.clone()))
            }
            NameConflictPolicy::Displace | NameConflictPolicy::Refuse => {
                let Some(endpoint) = self.find_endpoint(claim.name.as_str()) else {
                    return Ok(claim.name.clone());
                };
                if !allows_token(&endpoint.record, token) {
                    return Err(AttachError::WrongToken(claim.name.clone()));
                }
                if endpoint.listener.is_some() && claim.on_conflict == NameConflictPolicy::Refuse {
                    return Err(AttachError::Taken(claim.name.clone()));
                }
                Ok(claim.name.clone())
            }
        }
    }

    /// Detaches a listener. Does nothing if another listener has displaced it.
    pub(in crate::bus) fn detach_listener(&mut self, slot: EndpointSlot, session: Uuid) {
        let endpoint = self.endpoint_mut(slot);
        if endpoint.is_held_by(session) {
            endpoint.listener = None;
            endpoint.requeue_in_flight();
            // Without a listener there will be no room: wake the senders that wait for it.
            endpoint.note_progress();
            endpoint.last_progress = None;
        }
    }

    /// Sets the record of an endpoint that was read from disk.
    pub(in crate::bus) fn restore_record(&mut self, name: &EndpointName, standing: EndpointRecord) {
        let slot = self.slot_or_insert(name);
        self.endpoint_mut(slot).record = standing;
    }
}

/// Returns whether the endpoint is unprotected or protected by this token.
fn allows_token(standing: &EndpointRecord, token: Option<[u8; 32]>) -> bool {
    standing.token.is_none_or(|wanted| token == Some(wanted))
}
