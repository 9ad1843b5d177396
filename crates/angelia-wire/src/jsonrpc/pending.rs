//! Who waits for which answer. Ids are counted up and never used twice, so an answer that comes
//! after its request was given up is known for what it is, and reaches nobody else.

use std::collections::BTreeMap;

use super::message::Id;

/// Our requests that the peer has not answered yet, each with whoever waits for it.
#[derive(Debug)]
pub struct Pending<T> {
    next: i64,
    /// In the order in which they were asked.
    waiting: BTreeMap<i64, T>,
    closed: bool,
}

/// Whose answer this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered<T> {
    /// Of somebody who waits.
    By(T),
    /// Of a request that was answered or given up before.
    Late,
    /// Of nothing that was ever asked here.
    Stranger,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { next: 0, waiting: BTreeMap::new(), closed: false }
    }
}

impl<T> Pending<T> {
    /// The id for a new request. `Err` gives back who would wait: the peer has gone.
    pub fn ask(&mut self, who: T) -> Result<Id<'static>, T> {
        if self.closed {
            return Err(who);
        }
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, who);
        Ok(Id::Number(id))
    }

    /// An answer has come.
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

    /// Nobody waits for this one any more; its answer will be [`Answered::Late`].
    pub fn give_up(&mut self, id: &Id<'_>) -> Option<T> {
        self.waiting.remove(&number(id)?)
    }

    /// Gives up everybody of whom `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, who| keep(who));
    }

    /// The peer has gone: everybody who waits, the longest first. Nothing can be asked after this.
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

/// Some peers send a number back as a text.
fn number(id: &Id<'_>) -> Option<i64> {
    match id {
        Id::Number(number) => Some(*number),
        Id::Text(text) => text.parse().ok(),
    }
}
