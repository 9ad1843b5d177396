//! Runs commands. Each returns its reply, or `None` if the command became a turn.

use std::{path::Path, sync::Arc};

use angelia_core::{
    engine::EngineError,
    model::{AuditAction, AuditActor, SessionId, SessionRecord, TurnState, UsageGroup, UsageQuery},
    ports::{ChatState, InboundMessage, RecordKind, StoredEvent},
};

use super::{
    chat_host::ChatContext,
    command::{ChatCommand, help_text},
    conversation::{ChatEvent, running_turn, start_message, steer_running, turn_options},
    decisions::{decide_typed, is_approver, stop_turn},
};
use crate::http::{NewScheduleBody, schedule_audit_subject};

const APPROVERS_ONLY: &str = "Only the approvers of this channel may do that.";

/// How many sessions `/sessions` lists.
const MAX_SESSIONS: usize = 10;

/// A command in its chat.
struct CommandRun<'a> {
    context: &'a Arc<ChatContext>,
    address: &'a Arc<str>,
    stored: &'a StoredEvent,
    message: &'a InboundMessage,
}

pub(super) async fn run_command(
    context: &Arc<ChatContext>,
    address: &Arc<str>,
    stored: &StoredEvent,
    message: &InboundMessage,
    command: ChatCommand,
    argument: &str,
) -> Option<String> {
    let run = CommandRun { context, address, stored, message };
    let answer = match command {
        ChatCommand::Help => Ok(help_text()),
        ChatCommand::Whoami => Ok(run.whoami()),
        ChatCommand::New => run.begin_new().await,
        ChatCommand::Sessions => run.list_sessions().await,
        ChatCommand::Resume => run.resume(argument).await,
        ChatCommand::Fork => run.fork().await,
        ChatCommand::Stop => Ok(match stop_turn(context, address).await {
            0 => "Nothing is running here.".to_owned(),
            _ => "Stopping.".to_owned(),
        }),
        ChatCommand::Status => run.status().await,
        ChatCommand::Usage => run.usage().await,
        ChatCommand::Model => run.model(argument).await,
        ChatCommand::Profile => run.profile(argument).await,
        ChatCommand::Cwd => run.cwd(argument).await,
        ChatCommand::Compact => run.compact().await,
        ChatCommand::Steer if argument.is_empty() => {
            Ok("Write the message after /steer.".to_owned())
        }
        ChatCommand::Steer if steer_running(context, address, argument).await => {
            Ok("Passed on.".to_owned())
        }
        ChatCommand::Steer => return run.run_as_turn(argument).await,
        ChatCommand::Approve => Ok(decide_typed(context, stored, true, argument).await),
        ChatCommand::Deny => Ok(decide_typed(context, stored, false, argument).await),
        ChatCommand::Schedule => run.schedule(argument).await,
    };
    Some(answer.unwrap_or_else(|error| format!("(failed: {error})")))
}

impl CommandRun<'_> {
    fn whoami(&self) -> String {
        let sender = &self.stored.event.sender;
        let role = if is_approver(self.context, self.stored) { "talk and decide" } else { "talk" };
        format!(
            "You are {} with the id `{}`. This chat is `{}`. You may {role}.",
            sender.name, sender.id, self.address
        )
    }

    async fn state(&self) -> Result<ChatState, EngineError> {
        Ok(self.context.parts.chats.chat_state(self.address).await?)
    }

    async fn put_state(&self, state: ChatState) -> Result<(), EngineError> {
        Ok(self.context.parts.chats.put_chat_state(self.address, state).await?)
    }

    /// Returns the chat's current session, if it has one.
    async fn session(&self) -> Result<Option<SessionRecord>, EngineError> {
        let Some(session) = self.state().await?.session else { return Ok(None) };
        match self.context.parts.engine.session(session).await {
            Ok(session) => Ok(Some(session)),
            Err(EngineError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn begin_new(&self) -> Result<String, EngineError> {
        let state = self.state().await?;
        self.put_state(ChatState { session: None, ..state }).await?;
        Ok("The next message begins a new session.".to_owned())
    }

    async fn list_sessions(&self) -> Result<String, EngineError> {
        let current = self.state().await?.session;
        let engine = &self.context.parts.engine;
        let mut lines = Vec::new();
        for id in self.chat_sessions().await?.into_iter().take(MAX_SESSIONS) {
            let Ok(session) = engine.session(id).await else { continue };
            let short = engine.short_id(RecordKind::Session, id.as_uuid()).await?;
            let mark = if Some(id) == current { " (this one)" } else { "" };
            let title = session.title.as_deref().unwrap_or("untitled");
            let begun = session.created_at.strftime("%Y-%m-%d %H:%M");
            lines.push(format!("- `{short}` {title}, {begun} UTC{mark}"));
        }
        if lines.is_empty() {
            return Ok("This chat has no sessions yet.".to_owned());
        }
        Ok(format!("{}\n\n/resume ID continues one.", lines.join("\n")))
    }

    async fn chat_sessions(&self) -> Result<Vec<SessionId>, EngineError> {
        Ok(self.context.parts.chats.chat_sessions(self.address).await?)
    }

    async fn resume(&self, argument: &str) -> Result<String, EngineError> {
        let wanted = argument.replace('-', "").to_ascii_lowercase();
        let matches = |id: &SessionId| id.as_uuid().simple().to_string().starts_with(&wanted);
        let found: Vec<SessionId> = if wanted.len() < 4 {
            Vec::new()
        } else {
            // Search only this chat's sessions: it must not see any others.
            self.chat_sessions().await?.into_iter().filter(matches).collect()
        };
        match found.as_slice() {
            [] => Ok("This chat has no such session; /sessions lists them.".to_owned()),
            [only] => {
                let state = self.state().await?;
                self.put_state(ChatState { session: Some(*only), ..state }).await?;
                Ok("Continuing this session.".to_owned())
            }
            _ => Ok("Several sessions start with that; write more of the id.".to_owned()),
        }
    }

    async fn fork(&self) -> Result<String, EngineError> {
        let Some(session) = self.session().await? else {
            return Ok("There is no session to fork yet.".to_owned());
        };
        let engine = &self.context.parts.engine;
        let copy = engine.fork_session(session.id).await?;
        let now = self.context.parts.clock.now();
        self.context.parts.chats.add_chat_session(self.address, copy.id, now).await?;
        let state = self.state().await?;
        self.put_state(ChatState { session: Some(copy.id), ..state }).await?;
        let short = engine.short_id(RecordKind::Session, copy.id.as_uuid()).await?;
        Ok(format!("Continuing in the copy `{short}`; the old session is unchanged."))
    }

    async fn status(&self) -> Result<String, EngineError> {
        let Some(session) = self.session().await? else {
            return Ok("No session yet; the next message begins one.".to_owned());
        };
        let engine = &self.context.parts.engine;
        let short = engine.short_id(RecordKind::Session, session.id.as_uuid()).await?;
        let mut waiting = 0;
        for turn in self.context.turns_of(self.address) {
            let state = engine.turn(turn).await.map(|turn| turn.state);
            waiting += usize::from(matches!(state, Ok(TurnState::Queued)));
        }
        let doing = match running_turn(self.context, self.address).await {
            None => "idle".to_owned(),
            Some(turn) => match engine.turn(turn).await?.state {
                TurnState::AwaitingApproval => "waits for a decision".to_owned(),
                _ => "works".to_owned(),
            },
        };
        let spec = &session.spec;
        Ok(format!(
            "- session `{short}`: {doing}, {waiting} waiting\n- profile `{}` ({})\n- model `{}`\n- folder `{}`",
            spec.profile,
            spec.executor,
            spec.model.as_deref().unwrap_or("default"),
            spec.cwd.display(),
        ))
    }

    async fn usage(&self) -> Result<String, EngineError> {
        let ours: Vec<String> =
            self.chat_sessions().await?.iter().map(ToString::to_string).collect();
        let query = UsageQuery { by: Some(UsageGroup::Session), ..UsageQuery::default() };
        let rows = self.context.parts.engine.usage(query).await?;
        let rows = rows.iter().filter(|row| {
            row.key.as_deref().is_some_and(|key| ours.iter().any(|session| session == key))
        });
        let (mut turns, mut input, mut output, mut cost) = (0, 0, 0, 0.0);
        for row in rows {
            turns += row.turns;
            input +=
                row.usage.input_tokens + row.usage.cache_read_tokens + row.usage.cache_write_tokens;
            output += row.usage.output_tokens;
            cost += row.usage.cost_usd.unwrap_or_default();
        }
        Ok(format!("{turns} turns, {input} tokens in, {output} out, {cost:.2} USD"))
    }

    async fn model(&self, argument: &str) -> Result<String, EngineError> {
        let Some(session) = self.session().await? else {
            return Ok("No session yet; the next message begins one.".to_owned());
        };
        if argument.is_empty() {
            let model = session.spec.model.as_deref().unwrap_or("the agent's default");
            return Ok(format!("The model is {model}."));
        }
        let model: Arc<str> = argument.into();
        let engine = &self.context.parts.engine;
        engine.change_session(session.id, move |spec| spec.model = Some(model)).await?;
        Ok(format!("The next turn uses {argument}."))
    }

    async fn profile(&self, argument: &str) -> Result<String, EngineError> {
        let known = self.context.parts.profiles.list();
        if argument.is_empty() {
            let names: Vec<String> = known.iter().map(|one| format!("`{}`", one.name)).collect();
            return Ok(format!("Profiles: {}", names.join(", ")));
        }
        if !is_approver(self.context, self.stored) {
            return Ok(APPROVERS_ONLY.to_owned());
        }
        if !known.iter().any(|one| &*one.name == argument) {
            return Ok(format!("There is no profile `{argument}`."));
        }
        let state = self.state().await?;
        self.put_state(ChatState { session: None, profile: Some(argument.into()), ..state })
            .await?;
        self.audit(AuditAction::Configuration, format!("profile `{argument}` in {}", self.address))
            .await;
        Ok(format!("The next message begins a session with the profile `{argument}`."))
    }

    async fn cwd(&self, argument: &str) -> Result<String, EngineError> {
        let settings = self.context.settings(&self.stored.platform);
        let place = settings.map(|settings| settings.place_of(&self.stored.event.chat));
        let root = place.and_then(|place| place.cwd);
        let state = self.state().await?;
        if argument.is_empty() {
            let folder = match self.session().await? {
                Some(session) => Some(session.spec.cwd),
                None => state.cwd.or(root),
            };
            let folder = folder
                .map_or_else(|| "the profile's".to_owned(), |path| path.display().to_string());
            return Ok(format!("The folder is `{folder}`."));
        }
        if !is_approver(self.context, self.stored) {
            return Ok(APPROVERS_ONLY.to_owned());
        }
        let Some(root) = root else {
            return Ok("No folder is configured for this chat (`cwd` in config.yaml), so there is none to \
                       choose below it.".to_owned());
        };
        let Some(folder) = folder_below(&root, argument).await else {
            return Ok(format!("`{argument}` is not a folder below `{}`.", root.display()));
        };
        self.audit(
            AuditAction::Configuration,
            format!("folder {} in {}", folder.display(), self.address),
        )
        .await;
        let answer = format!("The next message begins a session in `{}`.", folder.display());
        self.put_state(ChatState { session: None, cwd: Some(folder), ..state }).await?;
        Ok(answer)
    }

    /// Compacts the conversation. That takes a while, so the result follows in a later message.
    async fn compact(&self) -> Result<String, EngineError> {
        let Some(session) = self.session().await? else {
            return Ok("There is nothing to compact yet.".to_owned());
        };
        let (context, address) = (Arc::clone(self.context), Arc::clone(self.address));
        let id = format!("compacted-{}-{}", self.stored.platform, self.stored.event.dedupe_key);
        self.context.parts.tasks.spawn_until_stopped(async move {
            let report = context.parts.engine.compact(session.id, turn_options()).await;
            let text = match report {
                Ok(report) if report.compacted => format!("Compacted: {}", report.reason),
                Ok(report) => format!("Not compacted: {}", report.reason),
                Err(error) => format!("(failed: {error})"),
            };
            context.say(&address, id, &text).await;
        });
        Ok("Compacting the conversation.".to_owned())
    }

    /// Runs the words as a turn of their own, because no running turn can take them.
    async fn run_as_turn(&self, words: &str) -> Option<String> {
        let message = InboundMessage { text: words.into(), ..self.message.clone() };
        let event = ChatEvent::new(self.address, self.stored, &message);
        match start_message(self.context, vec![event]).await {
            Ok(()) => None,
            Err(error) => Some(format!("(failed: {error})")),
        }
    }

    async fn schedule(&self, argument: &str) -> Result<String, EngineError> {
        if !is_approver(self.context, self.stored) {
            return Ok(APPROVERS_ONLY.to_owned());
        }
        let engine = &self.context.parts.engine;
        if argument.is_empty() {
            let mut lines = Vec::new();
            for summary in engine.schedules().await? {
                let record = &summary.record;
                if record.to.as_deref() == Some(&**self.address) {
                    let short = engine.short_id(RecordKind::Schedule, record.id.as_uuid()).await?;
                    lines.push(format!("- `{short}` {}: {}", record.trigger, record.prompt));
                }
            }
            return Ok(match lines.len() {
                0 => {
                    "Nothing is scheduled for this chat; `/schedule every 1h: TEXT` adds something."
                        .to_owned()
                }
                _ => lines.join("\n"),
            });
        }
        let Some((spec, prompt)) = argument.split_once(": ") else {
            return Ok(
                "Write when and what, with a colon between them: `/schedule every 1h: TEXT`."
                    .to_owned(),
            );
        };
        let settings = self.context.settings(&self.stored.platform);
        let place =
            settings.map(|settings| settings.place_of(&self.stored.event.chat)).unwrap_or_default();
        let state = self.state().await?;
        let body = NewScheduleBody {
            spec: spec.trim().to_owned(),
            prompt: prompt.trim().into(),
            profile: state.profile.or(place.profile),
            cwd: state.cwd.or(place.cwd),
            to: Some(Arc::clone(self.address)),
            ..NewScheduleBody::default()
        };
        match body.into_record(engine.fresh_id(), engine.now()) {
            Err(error) => Ok(format!("This cannot be scheduled: {error}")),
            Ok(record) => {
                engine.add_schedule(&record).await?;
                self.audit(AuditAction::Schedule, schedule_audit_subject("added", &record)).await;
                let next = record.next_at.map_or_else(String::new, |at| format!(" Next: {at}."));
                Ok(format!("Scheduled.{next}"))
            }
        }
    }

    async fn audit(&self, action: AuditAction, subject: String) {
        let who = format!("{}:{}", self.stored.platform, self.stored.event.sender.id);
        let actor = AuditActor::ChatUser(who.into());
        self.context.parts.engine.record_audit(actor, action, subject).await;
    }
}

/// Returns the canonical path of a folder if it is `root` or below it.
async fn folder_below(root: &Path, wanted: &str) -> Option<std::path::PathBuf> {
    let root = tokio::fs::canonicalize(root).await.ok()?;
    let folder = tokio::fs::canonicalize(root.join(wanted)).await.ok()?;
    let is_folder = tokio::fs::metadata(&folder).await.is_ok_and(|found| found.is_dir());
    (is_folder && folder.starts_with(&root)).then_some(folder)
}
