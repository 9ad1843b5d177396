//! The session of a chat. A message starts a new turn, steers the running one, or edits a queued one.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    engine::{EngineError, NewSession, RequestKey, SteerOutcome, Submission, SubmittedTurn},
    model::{Content, SessionRecord, SessionSource, TurnId, TurnOptions, TurnOrigin, TurnState},
    ports::{InboundMessage, Page, ProfileRequest, StoreError, StoredEvent},
};
use tokio::time::sleep;

use super::{
    chat_host::{ChatContext, OpenTurn},
    prompt::{message_words, source_lines},
    session_files::ChatFiles,
    settings::{BusyPolicy, ChatPlace},
    turn_view::{FollowedTurn, follow_turn},
};
use crate::unattended_turn::StartError;

/// How long a repeated event still finds its turn.
const KEY_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// The pauses before the retries after a transient error.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15)];

/// A message of a chat.
#[derive(Clone, Debug)]
pub(super) struct ChatEvent {
    pub(super) address: Arc<str>,
    pub(super) stored: StoredEvent,
    pub(super) message: InboundMessage,
}

impl ChatEvent {
    pub(super) fn new(address: &Arc<str>, stored: &StoredEvent, message: &InboundMessage) -> Self {
        Self { address: Arc::clone(address), stored: stored.clone(), message: message.clone() }
    }

    /// Returns the same key for every delivery of the event, so that it gets only one turn.
    fn key(&self) -> RequestKey {
        RequestKey {
            caller: format!("chat:{}", self.stored.platform).into(),
            key: Arc::clone(&self.stored.event.dedupe_key),
            // A constant, because the event alone identifies the request.
            input: Some([0; 32]),
            window: KEY_LIFETIME,
        }
    }
}

enum Started {
    Steered,
    Turn(Box<SubmittedTurn>),
}

/// Resumes an event of an earlier process. Returns `false` if the event never reached a turn.
pub(super) async fn take_up(
    context: &Arc<ChatContext>,
    event: &ChatEvent,
) -> Result<bool, StoreError> {
    let engine = &context.parts.engine;
    if let Some(turn) = engine.find_by_key(event.key()).await.map_err(store_error)? {
        let watch = engine.watch(turn, 0).await.map_err(store_error)?;
        spawn_follow(context, event, turn, watch);
        return Ok(true);
    }
    if event.stored.turn.is_none() {
        return Ok(false);
    }
    // The event steered a turn that ended with the earlier process. That turn's own chat event
    // reports its end.
    context.parts.chats.finish_event(event.stored.position).await?;
    Ok(true)
}

/// Starts a turn for messages that belong together, or passes them to the running one. The last message
/// identifies the request.
pub(super) async fn start_message(
    context: &Arc<ChatContext>,
    events: Vec<ChatEvent>,
) -> Result<(), StoreError> {
    let Some((main, joined)) = events.split_last() else { return Ok(()) };
    let mut pauses = RETRY_DELAYS.iter();
    loop {
        let error = match start_or_steer(context, main, joined).await {
            Ok(Started::Steered) => {
                return context.parts.chats.finish_event(main.stored.position).await;
            }
            Ok(Started::Turn(submitted)) => {
                let SubmittedTurn { turn, watch, .. } = *submitted;
                context.parts.chats.set_event_turn(main.stored.position, turn).await?;
                spawn_follow(context, main, turn, watch);
                return Ok(());
            }
            Err(StartError::Engine(EngineError::ShuttingDown)) => {
                if context.parts.engine.wait_until_accepting().await {
                    continue;
                }
                // The next process will find the event.
                return Ok(());
            }
            Err(error) => error,
        };
        match pauses.next() {
            Some(pause) if error.is_transient() => sleep(*pause).await,
            _ => {
                let id =
                    format!("failed-{}-{}", main.stored.platform, main.stored.event.dedupe_key);
                context.say(&main.address, id, &format!("(failed: {error})")).await;
                return context.parts.chats.finish_event(main.stored.position).await;
            }
        }
    }
}

/// Handles an edited message. If its turn is still queued, the new text replaces the old one; if the turn
/// runs, it gets the new text. Returns `false` if the edit did not lead to a turn of its own.
pub(super) async fn edit_message(
    context: &Arc<ChatContext>,
    event: &ChatEvent,
) -> Result<bool, StoreError> {
    let Some(turn) = turn_of_message(context, &event.address, &event.message.id) else {
        return Ok(false);
    };
    let engine = &context.parts.engine;
    if withdraw_queued(context, turn).await {
        start_message(context, vec![event.clone()]).await?;
        return Ok(true);
    }
    let words = format!("(the message was edited; it reads now:)\n{}", event.message.text);
    context.parts.chats.set_event_turn(event.stored.position, turn).await?;
    let steered = engine.steer(turn, vec![Content::text(words)], turn_options()).await;
    if let Ok(SteerOutcome::Queued(submitted)) = steered {
        let SubmittedTurn { turn, watch, .. } = submitted;
        spawn_follow(context, event, turn, watch);
        return Ok(true);
    }
    Ok(false)
}

/// Handles a deleted message. If its turn is still queued, it is withdrawn; a running turn
/// continues until `/stop`.
pub(super) async fn withdraw_message(context: &ChatContext, address: &str, message: &str) {
    if let Some(turn) = turn_of_message(context, address, message) {
        withdraw_queued(context, turn).await;
    }
}

/// Returns the open turn that a message started.
fn turn_of_message(context: &ChatContext, address: &str, message: &str) -> Option<TurnId> {
    let is_its = |turn: &OpenTurn| *turn.address == *address && *turn.message_id == *message;
    let open = context.open_turns.lock();
    open.iter().find(|(_, turn)| is_its(turn)).map(|(id, _)| *id)
}

/// Withdraws a turn that is still queued. Returns `false` if it already runs.
async fn withdraw_queued(context: &ChatContext, turn: TurnId) -> bool {
    let engine = &context.parts.engine;
    let state = engine.turn(turn).await.map(|turn| turn.state);
    if !matches!(state, Ok(TurnState::Queued)) {
        return false;
    }
    // Do not report the end of a turn that its sender withdrew.
    context.superseded.lock().push(turn);
    engine.interrupt(turn, false).await.is_ok()
}

/// Passes words to the running turn of a chat. Returns `false` if no running turn accepts them.
pub(super) async fn steer_running(context: &ChatContext, address: &str, words: &str) -> bool {
    let Some(turn) = running_turn(context, address).await else { return false };
    let input = vec![Content::text(words)];
    let steered = context.parts.engine.steer(turn, input, turn_options()).await;
    matches!(steered, Ok(SteerOutcome::Passed))
}

async fn start_or_steer(
    context: &Arc<ChatContext>,
    main: &ChatEvent,
    joined: &[ChatEvent],
) -> Result<Started, StartError> {
    let session = find_or_create_session(context, main).await?;
    let input = compose_input(context, &session, main, joined).await?;
    // The agent gets these with the main message. Unless they end here, they would run again after
    // a crash.
    for event in joined {
        let finished = context.parts.chats.finish_event(event.stored.position).await;
        finished.map_err(EngineError::from)?;
    }
    if let Some(running) = running_turn(context, &main.address).await {
        let place = place_of(context, main);
        match place.busy.unwrap_or_default() {
            BusyPolicy::Steer if can_steer(context, &session) => {
                // Recorded before steering, so that after a crash the message never runs as a turn
                // of its own.
                let position = main.stored.position;
                let noted = context.parts.chats.set_event_turn(position, running).await;
                noted.map_err(EngineError::from)?;
                match context.parts.engine.steer(running, input.clone(), turn_options()).await {
                    Ok(SteerOutcome::Passed) => return Ok(Started::Steered),
                    Ok(SteerOutcome::Queued(submitted)) => {
                        return Ok(Started::Turn(Box::new(submitted)));
                    }
                    Err(EngineError::NotRunning | EngineError::NotFound(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            BusyPolicy::Steer | BusyPolicy::Queue => {
                let id =
                    format!("queued-{}-{}", main.stored.platform, main.stored.event.dedupe_key);
                context
                    .say(&main.address, id, "(queued: it runs when the current turn has ended)")
                    .await;
            }
            BusyPolicy::Interrupt => match context.parts.engine.interrupt(running, false).await {
                Ok(()) | Err(EngineError::NotRunning) => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
    let key = Some(main.key());
    let new = Submission { key, ..Submission::new(session.id, input, turn_options()) };
    Ok(Started::Turn(Box::new(context.parts.engine.submit_with(new).await?)))
}

/// Returns the turn's input: words, files and pictures.
async fn compose_input(
    context: &ChatContext,
    session: &SessionRecord,
    main: &ChatEvent,
    joined: &[ChatEvent],
) -> Result<Vec<Content>, StartError> {
    let files = ChatFiles::of(&context.parts.sessions_dir, session.id);
    let mut parts = Vec::new();
    let engine = &context.parts.engine;
    if engine.turns(Some(session.id), Page::first(1)).await?.is_empty() {
        let output = files.output_folder().await.ok();
        let output = output.as_deref().and_then(|path| path.to_str());
        parts.push(source_lines(&main.stored.platform, main.message.is_direct, output));
    }
    let mut pictures = Vec::new();
    for event in joined.iter().chain([main]) {
        let stored = &event.stored;
        let words = message_words(&event.message, &stored.event.sender, stored.received_at);
        parts.extend(Some(words).filter(|words| !words.trim().is_empty()));
        if let Some(adapter) = context.adapter(&stored.platform) {
            let (lines, more) = files.receive(adapter, &event.message.files).await;
            parts.extend((!lines.is_empty()).then(|| lines.join("\n")));
            pictures.extend(more);
        }
    }
    let mut input = vec![Content::text(parts.join("\n\n"))];
    input.extend(pictures);
    Ok(input)
}

/// Returns the chat's current session, or creates one.
pub(super) async fn find_or_create_session(
    context: &ChatContext,
    event: &ChatEvent,
) -> Result<SessionRecord, StartError> {
    let (engine, chats) = (&context.parts.engine, &context.parts.chats);
    let mut state = chats.chat_state(&event.address).await.map_err(EngineError::from)?;
    if let Some(session) = state.session
        && let Ok(session) = engine.session(session).await
    {
        return Ok(session);
    }
    let place = place_of(context, event);
    let cwd: Option<PathBuf> = state.cwd.clone().or(place.cwd);
    let wanted = ProfileRequest {
        profile: state.profile.clone().or(place.profile),
        cwd,
        ..ProfileRequest::default()
    };
    let spec = context.parts.profiles.resolve(wanted).await.map_err(StartError::Profile)?;
    let sender = &event.stored.event.sender.name;
    let title = if event.message.is_direct {
        format!("{}: {sender}", event.stored.platform)
    } else {
        event.address.to_string()
    };
    let session = engine
        .create_session(NewSession {
            spec,
            title: Some(title.into()),
            name: None,
            source: Some(SessionSource::Chat(Arc::clone(&event.address))),
        })
        .await?;
    state.session = Some(session.id);
    let now = context.parts.clock.now();
    chats.add_chat_session(&event.address, session.id, now).await.map_err(EngineError::from)?;
    chats.put_chat_state(&event.address, state).await.map_err(EngineError::from)?;
    Ok(session)
}

fn place_of(context: &ChatContext, event: &ChatEvent) -> ChatPlace {
    let settings = context.settings(&event.stored.platform);
    settings.map(|settings| settings.place_of(&event.stored.event.chat)).unwrap_or_default()
}

/// Returns the running turn of a chat. This ignores turns that others started in the same session: their
/// answers go elsewhere.
pub(super) async fn running_turn(context: &ChatContext, address: &str) -> Option<TurnId> {
    for turn in context.turns_of(address) {
        let state = context.parts.engine.turn(turn).await.map(|turn| turn.state);
        if matches!(state, Ok(TurnState::Running | TurnState::AwaitingApproval)) {
            return Some(turn);
        }
    }
    None
}

/// Returns whether the executor can steer. If it cannot, the engine would queue a turn without a request
/// key, which a repeated event would not find.
fn can_steer(context: &ChatContext, session: &SessionRecord) -> bool {
    let mut executors = context.parts.engine.executors().iter();
    executors.any(|one| one.name() == &*session.spec.executor && one.capabilities().steer)
}

/// Returns the options for turns of chats. Approvals may wait for a decision from any frontend.
pub(super) fn turn_options() -> TurnOptions {
    TurnOptions { can_ask: true, can_park: true, ..TurnOptions::new(TurnOrigin::Remote) }
}

fn spawn_follow(
    context: &Arc<ChatContext>,
    event: &ChatEvent,
    turn: TurnId,
    watch: angelia_core::engine::TurnWatch,
) {
    let open =
        OpenTurn { address: Arc::clone(&event.address), message_id: Arc::clone(&event.message.id) };
    context.open_turns.lock().insert(turn, open);
    let followed = FollowedTurn {
        turn,
        address: Arc::clone(&event.address),
        platform: Arc::clone(&event.stored.platform),
        chat: Arc::clone(&event.stored.event.chat),
        // In a group, the answer must show whom it is for.
        reply_to: (!event.message.is_direct).then(|| Arc::clone(&event.message.id)),
        position: event.stored.position,
    };
    let following = follow_turn(Arc::clone(context), followed, watch);
    context.parts.tasks.spawn_until_stopped(following);
}

fn store_error(error: EngineError) -> StoreError {
    match error {
        EngineError::Store(error) => error,
        other => StoreError::Failed { message: other.to_string() },
    }
}
