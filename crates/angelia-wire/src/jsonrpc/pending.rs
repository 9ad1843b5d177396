//! Matches responses to requests. Ids count up and are never reused, so the response to a cancelled
//! request is recognised as late and never reaches another waiter.

use std::collections::BTreeMap;

use super::message::RpcId;

/// Our requests that await a response, each with its waiter.
#[derive(Debug)]
pub struct PendingRequests<T> {
    next_id: i64,
    /// Ordered by id, so oldest first.
    waiters: BTreeMap<i64, T>,
    closed: bool,
}

/// What a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMatch<T> {
    /// A pending request, with its waiter.
    Waiter(T),
    /// A request that was already answered or cancelled.
    Late,
    /// Not a request of ours.
    Unknown,
}

impl<T> Default for PendingRequests<T> {
    fn default() -> Self {
        Self { next_id: 0, waiters: BTreeMap::new(), closed: false }
    }
}

impl<T> PendingRequests<T> {
    /// Registers a request and returns its id. Gives the waiter back if the peer has disconnected.
    pub fn register(&mut self, who: T) -> Result<RpcId<'static>, T> {
        if self.closed {
            return Err(who);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.waiters.insert(id, who);
        Ok(RpcId::Number(id))
    }

    /// Removes the request that this response answers.
    pub fn match_response(&mut self, id: &RpcId<'_>) -> ResponseMatch<T> {
        let Some(number) = id_number(id) else {
            return ResponseMatch::Unknown;
        };
        match self.waiters.remove(&number) {
            Some(who) => ResponseMatch::Waiter(who),
            None if (0..self.next_id).contains(&number) => ResponseMatch::Late,
            None => ResponseMatch::Unknown,
        }
    }

    /// Cancels a request. A response that still arrives is [`ResponseMatch::Late`].
    pub fn cancel(&mut self, id: &RpcId<'_>) -> Option<T> {
        self.waiters.remove(&id_number(id)?)
    }

    /// Cancels every request for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiters.retain(|_, who| keep(who));
    }

    /// Records that the peer has disconnected, and returns all waiters, oldest first. No request
    /// can be registered after this.
    pub fn close(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.closed = true;
        std::mem::take(&mut self.waiters).into_values()
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

/// Returns the id as a number. Some peers echo a numeric id as a string.
fn id_number(id: &RpcId<'_>) -> Option<i64> {
    match id {
        RpcId::Number(number) => Some(*number),
        RpcId::Text(text) => text.parse().ok(),
    }
}
