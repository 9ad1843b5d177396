//! Decides who may talk to the bot. In direct messages, a stranger gets a code that the owner can
//! approve; everything else from strangers is ignored.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use angelia_core::ports::{PairingCode, StoreError, StoredEvent};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::chat_host::ChatContext;

/// How long a pairing code is valid.
pub const PAIRING_LIFETIME: Duration = Duration::from_hours(1);

/// The letters of a code. None of them is easily confused with another.
const CODE_LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 8;

/// How many messages a person may send per [`RATE_PERIOD`].
const MAX_MESSAGES: usize = 20;
const RATE_PERIOD: Duration = Duration::from_mins(1);

/// Above this number of senders, those with no message in the last [`RATE_PERIOD`] are forgotten.
const MAX_KNOWN_SENDERS: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Admitted,
    /// No reply: a stranger in a group, or a group message that is not addressed to us.
    Ignored,
    /// A stranger in a direct message, who gets a code.
    Stranger,
}

/// Decides whether to handle an event. `is_addressed`: it is a direct message, or it mentions or
/// answers the bot.
pub(super) async fn admit(
    context: &ChatContext,
    event: &StoredEvent,
    is_direct: bool,
    is_addressed: bool,
) -> Result<Admission, StoreError> {
    let Some(settings) = context.settings(&event.platform) else { return Ok(Admission::Ignored) };
    if !is_direct && (!is_addressed || !settings.is_group(&event.event.chat)) {
        return Ok(Admission::Ignored);
    }
    let sender = &event.event.sender;
    let is_known = settings.is_listed(sender)
        || context.parts.chats.is_guest(&event.platform, &sender.id).await?;
    Ok(match (is_known, is_direct) {
        (true, _) => Admission::Admitted,
        (false, true) => Admission::Stranger,
        (false, false) => Admission::Ignored,
    })
}

/// Returns the text for a stranger, or `None` if too many codes are pending.
pub(super) async fn offer_code(
    context: &ChatContext,
    event: &StoredEvent,
) -> Result<Option<String>, StoreError> {
    let now = context.parts.clock.now();
    let since = now.checked_sub(PAIRING_LIFETIME).unwrap_or(now);
    let offer = PairingCode {
        code: new_code(context.parts.clock.fresh_uuid()).into(),
        platform: Arc::clone(&event.platform),
        sender: Arc::clone(&event.event.sender.id),
        name: Arc::clone(&event.event.sender.name),
        made_at: now,
    };
    let kept = context.parts.chats.offer_code(offer, since).await?;
    Ok(kept.map(|kept| {
        format!(
            "I do not know you yet. The owner of this bot can let you in on the machine where it runs, \
             within the hour:\n\n```\nangelia access approve {}\n```",
            kept.code
        )
    }))
}

/// Derives a code from the random part of an id.
fn new_code(id: Uuid) -> String {
    let random = id.as_bytes().iter().rev();
    let letters = random.take(CODE_LENGTH).map(|byte| CODE_LETTERS[usize::from(byte % 32)]);
    letters.map(char::from).collect()
}

/// A platform and a person's id there.
type SenderKey = (Arc<str>, Arc<str>);

/// When each person wrote recently.
#[derive(Debug, Default)]
pub(super) struct SenderRates {
    lately: Mutex<HashMap<SenderKey, VecDeque<Instant>>>,
}

/// Whether a person writes too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderRate {
    Fine,
    /// The first message over the limit; the sender gets a notice.
    Exceeded,
    StillExceeded,
}

impl SenderRates {
    pub(super) fn count(&self, event: &StoredEvent) -> SenderRate {
        let now = Instant::now();
        let mut lately = self.lately.lock();
        if lately.len() > MAX_KNOWN_SENDERS {
            lately.retain(|_, times| times.back().is_some_and(|last| *last + RATE_PERIOD > now));
        }
        let key = (Arc::clone(&event.platform), Arc::clone(&event.event.sender.id));
        let times = lately.entry(key).or_default();
        while times.front().is_some_and(|first| *first + RATE_PERIOD <= now) {
            times.pop_front();
        }
        times.push_back(now);
        if times.len() > MAX_MESSAGES + 1 {
            // The oldest times suffice to tell when there is room again.
            times.pop_back();
            return SenderRate::StillExceeded;
        }
        if times.len() > MAX_MESSAGES { SenderRate::Exceeded } else { SenderRate::Fine }
    }
}
