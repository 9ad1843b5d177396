//! Starts the connections and the lanes, and resumes the events that an earlier process left unfinished.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    engine::Engine,
    model::TurnId,
    ports::{Channel, ChatStore, Clock, OutgoingMessage, PairingCode, Profiles, StoreError},
    task::TaskGroup,
};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::interval};

use super::{
    access::{PAIRING_LIFETIME, SenderRates},
    connection::{ChannelStatus, ConnectionHealth, supervise},
    lane::Lanes,
    settings::ChannelSettings,
};
use crate::chat::{
    DeliveryQueue, DeliveryRequest, delivery_parts::rich_message, formatting::parse_markdown,
};

/// How long we recognise a repeated event. No platform repeats events for longer.
const EVENT_MEMORY: Duration = Duration::from_hours(7 * 24);
const UPKEEP_INTERVAL: Duration = Duration::from_hours(1);

pub struct ChatHostParts {
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub adapters: Vec<Arc<dyn Channel>>,
    /// By platform.
    pub settings: BTreeMap<Arc<str>, ChannelSettings>,
    /// Platforms that are configured but unusable, with the reason.
    pub unusable: Vec<(Arc<str>, String)>,
    pub chats: Arc<dyn ChatStore>,
    pub delivery_queue: DeliveryQueue,
    pub clock: Arc<dyn Clock>,
    /// The folder that contains one folder per session.
    pub sessions_dir: PathBuf,
    pub tasks: TaskGroup,
}

/// Serves chats until its tasks stop. Cheap to clone.
#[derive(Clone)]
pub struct ChatHost {
    context: Arc<ChatContext>,
}

/// The state that the parts of the host share.
pub(super) struct ChatContext {
    pub(super) parts: ChatHostParts,
    pub(super) health: HashMap<Arc<str>, Arc<ConnectionHealth>>,
    pub(super) lanes: Lanes,
    pub(super) rates: SenderRates,
    /// The turns of chats whose answers are not in the ledger yet.
    pub(super) open_turns: Mutex<HashMap<TurnId, OpenTurn>>,
    /// Notified when a turn leaves `open_turns`.
    pub(super) turn_closed: Notify,
    /// Turns that another one replaced. Their end is not reported to the chat.
    pub(super) superseded: Mutex<Vec<TurnId>>,
}

/// A turn of a chat whose answer is not in the ledger yet.
#[derive(Clone, Debug)]
pub(super) struct OpenTurn {
    pub(super) address: Arc<str>,
    /// The message that the turn answers.
    pub(super) message_id: Arc<str>,
}

impl ChatHost {
    /// Resumes the events that were left unfinished, then connects. The caller must have closed the lost
    /// turns of earlier processes.
    pub async fn start(parts: ChatHostParts) -> Result<Self, StoreError> {
        let health = parts
            .adapters
            .iter()
            .map(|adapter| (Arc::from(adapter.platform()), Arc::new(ConnectionHealth::new())));
        let context = Arc::new(ChatContext {
            health: health.collect(),
            lanes: Lanes::default(),
            rates: SenderRates::default(),
            open_turns: Mutex::default(),
            turn_closed: Notify::new(),
            superseded: Mutex::default(),
            parts,
        });
        let left = context.parts.chats.unfinished_events().await?;
        if !left.is_empty() {
            tracing::info!(events = left.len(), "resuming the chat events of an earlier process");
        }
        for event in left {
            context.lanes.dispatch(&context, event, true).await;
        }
        let tasks = context.parts.tasks.clone();
        for adapter in &context.parts.adapters {
            tasks.spawn_until_stopped(supervise(Arc::clone(&context), Arc::clone(adapter)));
        }
        tasks.spawn_until_stopped(forget_old_events(Arc::clone(&context)));
        Ok(Self { context })
    }

    /// Returns the open pairing codes, oldest first.
    pub async fn open_codes(&self) -> Result<Vec<PairingCode>, StoreError> {
        let parts = &self.context.parts;
        let now = parts.clock.now();
        parts.chats.codes(now.checked_sub(PAIRING_LIFETIME).unwrap_or(now)).await
    }

    /// Returns the status of each channel.
    pub async fn status(&self) -> Vec<ChannelStatus> {
        let context = &self.context;
        let open = context.parts.chats.unfinished_events().await.unwrap_or_default();
        let describe = |adapter: &Arc<dyn Channel>| {
            let platform = adapter.platform();
            let backlog = open.iter().filter(|event| *event.platform == *platform).count();
            Some(context.health.get(platform)?.describe(platform, backlog))
        };
        let unusable = context.parts.unusable.iter();
        let unusable = unusable.map(|(platform, error)| ChannelStatus::unusable(platform, error));
        context.parts.adapters.iter().filter_map(describe).chain(unusable).collect()
    }
}

impl ChatContext {
    pub(super) fn adapter(&self, platform: &str) -> Option<&Arc<dyn Channel>> {
        self.parts.adapters.iter().find(|adapter| adapter.platform() == platform)
    }

    pub(super) fn settings(&self, platform: &str) -> Option<&ChannelSettings> {
        self.parts.settings.get(platform)
    }

    /// Returns the open turns of a chat, oldest first.
    pub(super) fn turns_of(&self, address: &str) -> Vec<TurnId> {
        let open = self.open_turns.lock();
        let here = open.iter().filter(|(_, turn)| *turn.address == *address);
        let mut here: Vec<TurnId> = here.map(|(id, _)| *id).collect();
        here.sort_unstable();
        here
    }

    pub(super) fn close_turn(&self, turn: TurnId) {
        self.open_turns.lock().remove(&turn);
        self.turn_closed.notify_waiters();
    }

    /// Sends a short text to a chat. The text is in the ledger when this returns. `id` must be the same at
    /// every attempt.
    pub(super) async fn say(&self, address: &str, id: String, text: &str) {
        let said =
            self.parts.delivery_queue.deliver(DeliveryRequest::markdown(id, address, text)).await;
        if let Err(error) = said {
            tracing::warn!("cannot answer in {address}: {error}");
        }
    }
}

/// Returns a message with this Markdown.
pub(super) fn markdown_message(text: &str) -> OutgoingMessage {
    rich_message(parse_markdown(text))
}

async fn forget_old_events(context: Arc<ChatContext>) {
    let mut ticks = interval(UPKEEP_INTERVAL);
    loop {
        ticks.tick().await;
        let Ok(before) = context.parts.clock.now().checked_sub(EVENT_MEMORY) else { continue };
        if let Err(error) = context.parts.chats.forget_before(before).await {
            tracing::warn!(%error, "old chat events could not be removed");
        }
    }
}

impl fmt::Debug for ChatHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.parts.fmt(f)
    }
}

impl fmt::Debug for ChatHostParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatHost").field("adapters", &self.adapters).finish_non_exhaustive()
    }
}
