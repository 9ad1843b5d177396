//! Attaches a listener to an endpoint name. The decision is a single step under the index's lock,
//! so that two listeners that start together never share a name.

use std::{collections::VecDeque, sync::Arc};

use angelia_core::{
    model::EndpointName,
    ports::bus::{AttachError, Claim, WhenTaken},
};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    Index, Slot,
    endpoint::{Entry, Live, Standing},
};

/// A listener that has been attached to an endpoint.
#[derive(Debug)]
pub(in crate::bus) struct Claimed {
    pub(in crate::bus) slot: Slot,
    pub(in crate::bus) name: EndpointName,
    pub(in crate::bus) news: Arc<Notify>,
    /// Messages that were handed to the displaced listener: it will read them, so they need not be
    /// delivered again.
    pub(in crate::bus) done: Vec<u64>,
    /// The endpoint's record, if it has changed and must be saved.
    pub(in crate::bus) changed: Option<Standing>,
}

/// Far more listeners of one name than a person runs.
const LAST_SUFFIX: u32 = 10_000;

impl Index {
    /// Attaches the listener `session`. `token` is the hash of the claim's token.
    pub(in crate::bus) fn claim(
        &mut self,
        claim: &Claim,
        token: Option<[u8; 32]>,
        session: Uuid,
    ) -> Result<Claimed, AttachError> {
        let name = self.free_name(claim, token)?;
        let slot = self.slot(&name);
        let done = self.forget_handed(slot);
        let endpoint = self.at_mut(slot);
        endpoint.give_back();
        let news = Arc::new(Notify::new());
        if !endpoint.waiting.is_empty() {
            news.notify_one();
        }
        let new = Live { session, news: Arc::clone(&news) };
        // Woken, so that the displaced listener notices that it has lost the name.
        if let Some(displaced) = endpoint.live.replace(new) {
            displaced.news.notify_one();
        }
        endpoint.made_progress();
        let standing = Standing {
            seen: true,
            durable: claim.durable || endpoint.standing.durable,
            token: token.or(endpoint.standing.token),
        };
        let changed = (standing != endpoint.standing).then(|| standing.clone());
        endpoint.standing = standing;
        Ok(Claimed { slot, name, news, done, changed })
    }

    /// Removes the messages that were handed to a listener that does not acknowledge, and returns
    /// their positions.
    fn forget_handed(&mut self, slot: Slot) -> Vec<u64> {
        let taken = std::mem::take(&mut self.at_mut(slot).taken);
        let (handed, kept) = taken.into_iter().partition(|entry| entry.handed);
        self.at_mut(slot).taken = kept;
        let handed: VecDeque<Entry> = handed;
        for entry in &handed {
            self.forget(entry);
        }
        handed.iter().map(|entry| entry.position).collect()
    }

    /// Returns the name that the claim gets: its own, or that name with the lowest free suffix.
    fn free_name(
        &self,
        claim: &Claim,
        token: Option<[u8; 32]>,
    ) -> Result<EndpointName, AttachError> {
        let is_free = |name: &EndpointName| {
            let endpoint = self.known(name.as_str());
            endpoint.is_none_or(|endpoint| {
                endpoint.live.is_none() && may_have(&endpoint.standing, token)
            })
        };
        match claim.taken {
            WhenTaken::Suffix => {
                let suffixed = (2..=LAST_SUFFIX).filter_map(|n| claim.name.with_suffix(n).ok());
                std::iter::once(claim.name.clone())
                    .chain(suffixed)
                    .find(is_free)
                    .ok_or_else(|| AttachError::NoSuffix(claim.name.clone()))
            }
            WhenTaken::Displace | WhenTaken::Refuse => {
                let Some(endpoint) = self.known(claim.name.as_str()) else {
                    return Ok(claim.name.clone());
                };
                if !may_have(&endpoint.standing, token) {
                    return Err(AttachError::WrongToken(claim.name.clone()));
                }
                if endpoint.live.is_some() && claim.taken == WhenTaken::Refuse {
                    return Err(AttachError::Taken(claim.name.clone()));
                }
                Ok(claim.name.clone())
            }
        }
    }

    /// Detaches a listener. Does nothing if another listener has displaced it.
    pub(in crate::bus) fn detach(&mut self, slot: Slot, session: Uuid) {
        let endpoint = self.at_mut(slot);
        if endpoint.is_session(session) {
            endpoint.live = None;
            endpoint.give_back();
            // Without a listener there will be no room: wake the senders that wait for it.
            endpoint.made_progress();
            endpoint.last_progress = None;
        }
    }

    /// Sets the record of an endpoint that was read from disk.
    pub(in crate::bus) fn remember(&mut self, name: &EndpointName, standing: Standing) {
        let slot = self.slot(name);
        self.at_mut(slot).standing = standing;
    }
}

/// Returns whether the endpoint is unprotected or protected by this token.
fn may_have(standing: &Standing, token: Option<[u8; 32]>) -> bool {
    standing.token.is_none_or(|wanted| token == Some(wanted))
}
