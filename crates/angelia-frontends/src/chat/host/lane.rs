//! Handles the events of one chat in order. A turn runs outside its lane, so that a command, a button
//! press or another message never waits for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use angelia_core::ports::{InboundKind, InboundMessage, StoreError, StoredEvent};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    access::{Admission, SenderRate, admit, offer_code},
    chat_host::ChatContext,
    command::{ParsedCommand, parse_command},
    command_runner::run_command,
    conversation::{ChatEvent, edit_message, start_message, take_up, withdraw_message},
    decisions::{answer_press, stop_turn},
};

/// The limit on events that wait in one lane. Further events block their platform.
const MAX_LANE_EVENTS: usize = 1024;

/// How long a lane stays open without events.
const IDLE_TIME: Duration = Duration::from_mins(10);

/// How long a picture without words waits for words.
const PICTURE_WAIT: Duration = Duration::from_secs(30);

/// The pause before the next attempt to use the store.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The open lanes, by chat address.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    senders: Mutex<HashMap<Arc<str>, mpsc::Sender<LaneEvent>>>,
}

#[derive(Debug)]
struct LaneEvent {
    stored: StoredEvent,
    /// Whether an earlier process received the event.
    is_left: bool,
}

impl Lanes {
    /// Passes an event to the lane of its chat.
    pub(super) async fn dispatch(
        &self,
        context: &Arc<ChatContext>,
        stored: StoredEvent,
        is_left: bool,
    ) {
        if matches!(stored.event.kind, InboundKind::Press(_)) {
            // A press must be answered within seconds, so it does not queue behind other events of
            // its chat.
            let tasks = context.parts.tasks.clone();
            tasks.spawn_until_stopped(handle_press(Arc::clone(context), stored));
            return;
        }
        let address: Arc<str> = format!("{}:{}", stored.platform, stored.event.chat).into();
        let mut event = LaneEvent { stored, is_left };
        loop {
            let lane = self.lane_sender(context, &address);
            match lane.send(event).await {
                Ok(()) => return,
                // The lane has just closed: open a new one.
                Err(mpsc::error::SendError(returned)) => event = returned,
            }
        }
    }

    fn lane_sender(
        &self,
        context: &Arc<ChatContext>,
        address: &Arc<str>,
    ) -> mpsc::Sender<LaneEvent> {
        let mut open = self.senders.lock();
        if let Some(lane) = open.get(address).filter(|lane| !lane.is_closed()) {
            return lane.clone();
        }
        let (sender, events) = mpsc::channel(MAX_LANE_EVENTS);
        open.insert(Arc::clone(address), sender.clone());
        let (context, address) = (Arc::clone(context), Arc::clone(address));
        let tasks = context.parts.tasks.clone();
        let lane = ChatLane { context, address, events, pictures: Vec::new(), join_until: None };
        tasks.spawn_until_stopped(lane.run());
        sender
    }
}

async fn handle_press(context: Arc<ChatContext>, stored: StoredEvent) {
    let InboundKind::Press(press) = &stored.event.kind else { return };
    answer_press(&context, &stored, press).await;
    while let Err(error) = context.parts.chats.finish_event(stored.position).await {
        tracing::warn!(%error, "the end of a press waits for the store");
        sleep(STORE_RETRY_DELAY).await;
    }
}

struct ChatLane {
    context: Arc<ChatContext>,
    address: Arc<str>,
    events: mpsc::Receiver<LaneEvent>,
    /// Pictures that wait for words from their sender.
    pictures: Vec<ChatEvent>,
    join_until: Option<Instant>,
}

impl ChatLane {
    async fn run(mut self) {
        loop {
            let next = match self.join_until {
                Some(deadline) => tokio::select! {
                    next = self.events.recv() => next,
                    () = sleep_until(deadline) => {
                        self.run_pictures().await;
                        continue;
                    }
                },
                None => match timeout(IDLE_TIME, self.events.recv()).await {
                    Ok(next) => next,
                    Err(_silence) => {
                        if self.close() {
                            return;
                        }
                        continue;
                    }
                },
            };
            let Some(event) = next else { return };
            // The event was already acknowledged, so retry until the store works again.
            while let Err(error) = self.handle(&event).await {
                tracing::warn!(%error, "a chat event of {} waits for the store", self.address);
                sleep(STORE_RETRY_DELAY).await;
            }
        }
    }

    async fn handle(&mut self, event: &LaneEvent) -> Result<(), StoreError> {
        let stored = &event.stored;
        match &stored.event.kind {
            // `dispatch` handles presses without a lane.
            InboundKind::Press(_) => Ok(()),
            InboundKind::Deleted(message) => {
                self.pictures.retain(|picture| picture.message.id != *message);
                withdraw_message(&self.context, &self.address, message).await;
                self.finish(stored).await
            }
            InboundKind::Stop => {
                if admit(&self.context, stored, true, true).await? == Admission::Admitted {
                    stop_turn(&self.context, &self.address).await;
                }
                self.finish(stored).await
            }
            InboundKind::Message(message) => self.handle_message(event, message, false).await,
            InboundKind::Edited(message) => self.handle_message(event, message, true).await,
        }
    }

    async fn handle_message(
        &mut self,
        event: &LaneEvent,
        message: &InboundMessage,
        is_edit: bool,
    ) -> Result<(), StoreError> {
        let stored = &event.stored;
        let is_addressed = message.is_direct || message.is_addressed;
        match admit(&self.context, stored, message.is_direct, is_addressed).await? {
            Admission::Admitted => {}
            Admission::Ignored => return self.finish(stored).await,
            Admission::Stranger => {
                if !is_edit
                    && self.context.rates.count(stored) == SenderRate::Fine
                    && let Some(text) = offer_code(&self.context, stored).await?
                {
                    self.say(stored, &text).await;
                }
                return self.finish(stored).await;
            }
        }
        let chat_event = ChatEvent::new(&self.address, stored, message);
        if event.is_left && take_up(&self.context, &chat_event).await? {
            return Ok(());
        }
        if !event.is_left {
            match self.context.rates.count(stored) {
                SenderRate::Fine => {}
                SenderRate::Exceeded => {
                    self.say(stored, "Too many messages for me to follow; try again in a minute.")
                        .await;
                    return self.finish(stored).await;
                }
                SenderRate::StillExceeded => return self.finish(stored).await,
            }
        }
        if is_edit {
            if !edit_message(&self.context, &chat_event).await? {
                return self.finish(stored).await;
            }
            return Ok(());
        }
        match parse_command(&message.text) {
            ParsedCommand::Known(command, argument) => {
                let answer =
                    run_command(&self.context, &self.address, stored, message, command, argument)
                        .await;
                match answer {
                    Some(answer) => {
                        self.say(stored, &answer).await;
                        self.finish(stored).await
                    }
                    // The command became a turn.
                    None => Ok(()),
                }
            }
            ParsedCommand::Unknown(name) => {
                let text =
                    format!("I do not know the command `{name}`; /help lists those that I know.");
                self.say(stored, &text).await;
                self.finish(stored).await
            }
            ParsedCommand::Words => self.take_words(chat_event).await,
        }
    }

    /// Starts a turn, or keeps a picture waiting for its words.
    async fn take_words(&mut self, event: ChatEvent) -> Result<(), StoreError> {
        let waits = event.message.text.is_empty() && !event.message.files.is_empty();
        let is_other_sender = self
            .pictures
            .first()
            .is_some_and(|first| first.stored.event.sender.id != event.stored.event.sender.id);
        if is_other_sender {
            self.run_pictures().await;
        }
        if waits {
            self.pictures.push(event);
            self.join_until = Some(Instant::now() + PICTURE_WAIT);
            return Ok(());
        }
        let mut events = std::mem::take(&mut self.pictures);
        self.join_until = None;
        events.push(event);
        start_message(&self.context, events).await
    }

    async fn run_pictures(&mut self) {
        self.join_until = None;
        let pictures = std::mem::take(&mut self.pictures);
        if pictures.is_empty() {
            return;
        }
        if let Err(error) = start_message(&self.context, pictures).await {
            tracing::warn!(%error, "a picture in {} waits for the next start", self.address);
        }
    }

    async fn say(&self, stored: &StoredEvent, text: &str) {
        let id = format!("chat-{}-{}", stored.platform, stored.event.dedupe_key);
        self.context.say(&self.address, id, text).await;
    }

    async fn finish(&self, stored: &StoredEvent) -> Result<(), StoreError> {
        self.context.parts.chats.finish_event(stored.position).await
    }

    /// Closes the lane unless an event has arrived. Returns whether it is closed.
    fn close(&mut self) -> bool {
        // The lock keeps `lane_sender` from handing out this lane between the check and the removal.
        let mut open = self.context.lanes.senders.lock();
        if !self.events.is_empty() {
            return false;
        }
        open.remove(&self.address);
        self.events.close();
        true
    }
}
