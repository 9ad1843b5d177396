//! Attaches a listener to an endpoint name. The decision is a single step under the index's lock,
//! so that two listeners that start together never share a name.

use std::{collections::VecDeque, sync::Arc};

use angelia_core::{
    model::EndpointName,
    ports::bus::{AttachError, AttachRequest, Claimant, NameConflictPolicy},
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
        let is_host = claim.claimant == Claimant::Host;
        let new = AttachedListener { session, wakeup: Arc::clone(&news), is_host };
        // Woken, so that the displaced listener notices that it has lost the name.
        if let Some(displaced) = endpoint.listener.replace(new) {
            displaced.wakeup.notify_one();
        }
        endpoint.note_progress();
        let standing = EndpointRecord {
            seen: true,
            durable: claim.durable || endpoint.record.durable,
            // The host needs no proof, and no other listener may protect its name.
            token: if is_host { None } else { token.or(endpoint.record.token) },
            agent: match &claim.claimant {
                Claimant::Agent(session) => Some(Arc::clone(session)),
                Claimant::Host | Claimant::Owner => None,
            },
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
        match claim.on_conflict {
            NameConflictPolicy::Suffix => {
                let is_free = |name: &EndpointName| {
                    let listener = self.find_endpoint(name.as_str()).map(|it| &it.listener);
                    listener.is_none_or(Option::is_none)
                        && self.check_claim(name, claim, token).is_ok()
                };
                let suffixed = (2..=MAX_NAME_SUFFIX).filter_map(|n| claim.name.with_suffix(n).ok());
                std::iter::once(claim.name.clone())
                    .chain(suffixed)
                    .find(is_free)
                    .ok_or_else(|| AttachError::NoSuffix(claim.name.clone()))
            }
            NameConflictPolicy::Displace | NameConflictPolicy::Refuse => {
                self.check_claim(&claim.name, claim, token)?;
                let endpoint = self.find_endpoint(claim.name.as_str());
                if endpoint.is_some_and(|endpoint| endpoint.listener.is_some())
                    && claim.on_conflict == NameConflictPolicy::Refuse
                {
                    return Err(AttachError::Taken(claim.name.clone()));
                }
                Ok(claim.name.clone())
            }
        }
    }

    /// Checks that the claimant may have this name, and may protect it with this token.
    fn check_claim(
        &self,
        name: &EndpointName,
        claim: &AttachRequest,
        token: Option<[u8; 32]>,
    ) -> Result<(), AttachError> {
        let Some(endpoint) = self.find_endpoint(name.as_str()) else {
            return Ok(());
        };
        if claim.claimant == Claimant::Host {
            return Ok(());
        }
        if endpoint.listener.as_ref().is_some_and(|listener| listener.is_host) {
            return Err(AttachError::Taken(name.clone()));
        }
        let record = &endpoint.record;
        match (record.token, token) {
            (Some(wanted), offered) if offered != Some(wanted) => {
                return Err(AttachError::WrongToken(name.clone()));
            }
            (None, Some(_)) if record.seen => {
                return Err(AttachError::TokenTooLate(name.clone()));
            }
            _ => {}
        }
        if let Claimant::Agent(session) = &claim.claimant {
            let is_unused = !record.seen && endpoint.queued() == 0 && endpoint.reserved == 0;
            if !is_unused && record.agent.as_ref() != Some(session) {
                return Err(AttachError::NotGranted(name.clone()));
            }
        }
        Ok(())
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
