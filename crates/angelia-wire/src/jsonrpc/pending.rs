//! Matches responses to requests. Ids are counted up and never reused, so a response to a cancelled
//! request is recognised as late and never reaches another waiter.

use std::collections::BTreeMap;

use super::message::Id;

/// Our requests without a response, each with its waiter.
#[derive(Debug)]
pub struct Pending<T> {
    next: i64,
    /// In the order of the requests.
    waiting: BTreeMap<i64, T>,
    closed: bool,
}

/// What a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered<T> {
    /// A pending request, with its waiter.
    By(T),
    /// A request that was answered or cancelled before.
    Late,
    /// No request of ours.
    Stranger,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { next: 0, waiting: BTreeMap::new(), closed: false }
    }
}

impl<T> Pending<T> {
    /// Registers a request and returns its id. `Err` returns the waiter: the peer has disconnected.
    pub fn ask(&mut self, who: T) -> Result<Id<'static>, T> {
        if self.closed {
            return Err(who);
        }
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, who);
        Ok(Id::Number(id))
    }

    /// Removes the request that a response belongs to.
    pub fn answered(&mut self, id: &Id<'_>) -> Answered<T> {
        let Some(number) = number(id) else {
            return Answered::Stranger;
        };
        match self.waiting.remove(&number) {
            Some(who) => Answered::By(who),
            None if (0..self.next).contains(&number) => Answered::Late,
            None => Answered::Stranger,
        }
    }

    /// Cancels a request; its response will be [`ResponseMatch::Late`].
    pub fn give_up(&mut self, id: &Id<'_>) -> Option<T> {
        self.waiting.remove(&number(id)?)
    }

    /// Cancels every request for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, who| keep(who));
    }

    /// The peer has disconnected: returns all waiters, oldest first. No request can be registered
    /// after this.
    pub fn close(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.closed = true;
        std::mem::take(&mut self.waiting).into_values()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Some peers return a number as a string.
fn number(id: &Id<'_>) -> Option<i64> {
    match id {
        Id::Number(number) => Some(*number),
        Id::Text(text) => text.parse().ok(),
    }
}
