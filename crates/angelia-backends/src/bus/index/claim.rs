//! Who gets a name: decided in one step, so that two who start together never share one.

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

/// A name that has been given.
#[derive(Debug)]
pub(in crate::bus) struct Claimed {
    pub(in crate::bus) slot: Slot,
    pub(in crate::bus) name: EndpointName,
    pub(in crate::bus) news: Arc<Notify>,
    /// The displaced one has these, and will read them.
    pub(in crate::bus) done: Vec<u64>,
    /// What is to be remembered about the name, if that has changed.
    pub(in crate::bus) changed: Option<Standing>,
}

/// More sessions of one name than anybody runs.
const LAST_SUFFIX: u32 = 10_000;

impl Index {
    /// `token` is the hash of the claim's.
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

    /// The listener leaves; somebody who has displaced it is not disturbed.
    pub(in crate::bus) fn detach(&mut self, slot: Slot, session: Uuid) {
        let endpoint = self.at_mut(slot);
        if endpoint.is_session(session) {
            endpoint.live = None;
            endpoint.give_back();
            // Nobody takes anything here now: those who wait for room are told so.
            endpoint.made_progress();
            endpoint.last_progress = None;
        }
    }

    pub(in crate::bus) fn remember(&mut self, name: &EndpointName, standing: Standing) {
        let slot = self.slot(name);
        self.at_mut(slot).standing = standing;
    }
}

fn may_have(standing: &Standing, token: Option<[u8; 32]>) -> bool {
    standing.token.is_none_or(|wanted| token == Some(wanted))
}
