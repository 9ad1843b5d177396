//! Takes a request to its turn: checks the grant, recognises repeats, finds the session and submits
//! the new input.

use std::{fmt, sync::Arc};

use angelia_core::{
    engine::{EngineError, NewSession, Submission},
    model::{
        Content, ExternalName, HistoryMessage, Mode, Role, Seq, SessionId, SessionRecord,
        SessionSpec, ToolId, TurnId, TurnOptions, TurnOrigin,
    },
    ports::Page,
};
use axum::{extract::Request, http::HeaderMap, response::Response};

use super::{
    Dialect, DialectError, ErrorKind, InvalidRequest, ModelRequest, ShownFrom,
    constraint::AnswerConstraint,
    conversation::{self, RequestConversation},
    deduplication::RequestHashes,
    launch::SessionLaunch,
    live_answer::{AttachedTurn, LiveAnswer},
    matching::{self, SessionMatch},
    request_hints::RequestHints,
    respond, spend_limit, target,
};
use crate::http::{ApiState, body, keys::Principal};

/// Prompts for an agent that gets no new input from the caller.
const CONTINUE_PROMPT: &str = "Continue where you left off.";
const RESULTS_PROMPT: &str = "Go on with the results of your tools.";

/// Reads and decodes the body of a request, then serves it.
pub(in crate::http) async fn decode_and_serve<D: Dialect, E: Into<DialectError>>(
    state: &Arc<ApiState>,
    who: &Principal,
    request: Request,
    decode: impl FnOnce(&[u8]) -> Result<(ModelRequest, D), E>,
) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read_body(&parts.headers, body).await;
    let decoded = match read {
        Ok(bytes) => decode(&bytes).map_err(Into::into),
        Err(error) => Err(error.into()),
    };
    match decoded {
        Ok((ask, dialect)) => serve(state, who, &parts.headers, ask, dialect).await,
        Err(error) => respond::error_response::<D>(&error),
    }
}

/// Serves a decoded request.
pub(in crate::http) async fn serve<D: Dialect>(
    state: &Arc<ApiState>,
    who: &Principal,
    headers: &HeaderMap,
    ask: ModelRequest,
    dialect: D,
) -> Response {
    match (RequestHandler { state, principal: who }).start_answer(headers, ask).await {
        Ok(answer) => respond::respond(answer, dialect).await,
        Err(error) => {
            tracing::debug!(caller = %who.name, %error, "request refused");
            respond::error_response::<D>(&error)
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct RequestHandler<'a> {
    pub(super) state: &'a Arc<ApiState>,
    pub(super) principal: &'a Principal,
}

/// A decoded request with everything that is derived from it before a session is chosen.
pub(super) struct ResolvedRequest {
    pub(super) request: Arc<ModelRequest>,
    pub(super) hints: RequestHints,
    pub(super) conversation: Arc<RequestConversation>,
    pub(super) hashes: RequestHashes,
    pub(super) launch: SessionLaunch,
    pub(super) constraint: Arc<AnswerConstraint>,
    pub(super) options: TurnOptions,
}

/// Recovers a request whose tool results were given to an agent process that then died.
pub(super) struct LostAgentRecovery {
    principal: Principal,
    request: Arc<ResolvedRequest>,
    session: SessionId,
}

impl LostAgentRecovery {
    /// Sends the conversation and the results to a new process.
    pub(super) async fn relaunch(
        self,
        state: &Arc<ApiState>,
    ) -> Result<AttachedTurn, DialectError> {
        let serving = RequestHandler { state, principal: &self.principal };
        let session = state.engine.session(self.session).await?;
        serving.relaunch_session(&self.request, &session).await
    }
}

impl fmt::Debug for LostAgentRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostAgentRecovery").finish_non_exhaustive()
    }
}

impl RequestHandler<'_> {
    async fn start_answer(
        self,
        headers: &HeaderMap,
        ask: ModelRequest,
    ) -> Result<LiveAnswer, DialectError> {
        let ask = Arc::new(ask);
        let marks = RequestHints::from_headers(headers)?;
        let meant = self.resolve_target(&ask)?;
        let incoming = RequestConversation::new(&ask, &self.principal.name, &marks);
        incoming.check()?;
        let launch = SessionLaunch::resolve(self.state, &ask, &meant).await?;
        if incoming.has_images() && !launch.capabilities.images {
            let message = format!("`{}` cannot be shown images", ask.model);
            return Err(InvalidRequest::new(message).into());
        }
        let asked = ResolvedRequest {
            hashes: RequestHashes::new(&self.principal.name, &ask, &marks, incoming.fingerprint()),
            constraint: Arc::new(AnswerConstraint::from_request(&ask)?),
            options: self.turn_options(&ask).await?,
            request: ask,
            hints: marks,
            conversation: Arc::new(incoming),
            launch,
        };
        let asked = Arc::new(asked);
        let attached = match self.find_repeated(&asked).await? {
            Some(request) => self.attach(&asked, request).await?,
            None => None,
        };
        let taken = match attached {
            Some(taken) => taken,
            None => self.submit_to_session(&asked).await?,
        };
        // A request with `previous` does not repeat its conversation, so its history has no hash.
        let repeats = asked.request.previous_turn.is_none();
        let remembered = repeats.then(|| Arc::clone(&asked.conversation));
        // A model-mode agent has no side effects, so running it again is safe.
        let goes_on = matches!(taken.start, ShownFrom::AfterEvent(_)) && taken.mode == Mode::Model;
        let lost = goes_on.then(|| LostAgentRecovery {
            principal: self.principal.clone(),
            request: Arc::clone(&asked),
            session: taken.session,
        });
        let caller = Arc::clone(&self.principal.name);
        let demand = Arc::clone(&asked.constraint);
        let mut answer =
            LiveAnswer::new(self.state, &asked.request, caller, remembered, demand, taken);
        answer.recovery = lost;
        Ok(answer)
    }

    fn resolve_target(self, ask: &ModelRequest) -> Result<target::ModelTarget, DialectError> {
        let settings = &self.state.models;
        let id = match &settings.utility_profile {
            Some(profile) if ask.is_utility => profile,
            _ => &ask.model,
        };
        let profiles = self.state.profiles.list();
        let meant = target::resolve_model(id, settings, &profiles)
            .ok_or_else(|| target::unknown_model_error(&ask.model))?;
        target::check_grant(&meant, settings, self.principal)?;
        Ok(meant)
    }

    async fn turn_options(self, _ask: &ModelRequest) -> Result<TurnOptions, DialectError> {
        Ok(TurnOptions {
            caller: matching::recorded_caller(self.principal),
            max_cost_usd: spend_limit::remaining_usd(self.state, self.principal).await?,
            ..TurnOptions::new(TurnOrigin::Remote)
        })
    }

    /// Finds the session of the request and submits its new input there.
    async fn submit_to_session(
        self,
        asked: &ResolvedRequest,
    ) -> Result<AttachedTurn, DialectError> {
        let ResolvedRequest { request: ask, hints: marks, conversation: incoming, launch, .. } =
            asked;
        match matching::find_session(self.state, self.principal, ask, incoming, marks).await? {
            SessionMatch::New(name) => {
                self.start_session(asked, incoming.history.clone(), name).await
            }
            SessionMatch::BranchesAt(turn) => {
                let engine = &self.state.engine;
                let session = engine.turn(turn).await?.session;
                let history = engine.messages_until(session, turn).await?;
                self.start_session(asked, history, None).await
            }
            SessionMatch::AwaitsToolResults(session, turn, seq) => {
                if launch.is_same_agent(&session.spec)
                    && launch.fits(&session.spec)
                    && let Some(taken) =
                        self.deliver_tool_outputs(asked, &session, turn, seq).await?
                {
                    return Ok(taken);
                }
                // The request does not bring the results that the turn waits for.
                self.interrupt(turn).await;
                let history = self.history(asked, &session).await?;
                self.start_session(asked, history, None).await
            }
            SessionMatch::Continues(session, _) if !launch.is_same_agent(&session.spec) => {
                let history = self.history(asked, &session).await?;
                self.start_session(asked, history, None).await
            }
            SessionMatch::Continues(session, _until_it_is_submitted) => {
                self.continue_session(asked, &session).await
            }
        }
    }

    /// Returns the earlier conversation: as the request repeats it, otherwise as it is recorded.
    async fn history(
        self,
        asked: &ResolvedRequest,
        session: &SessionRecord,
    ) -> Result<Vec<HistoryMessage>, DialectError> {
        if asked.conversation.history.is_empty() {
            Ok(self.state.engine.messages(session.id).await?)
        } else {
            Ok(asked.conversation.history.clone())
        }
    }

    /// Delivers tool results to the turn that waits for them. Returns `None` if results are missing
    /// or the turn has ended.
    async fn deliver_tool_outputs(
        self,
        asked: &ResolvedRequest,
        session: &SessionRecord,
        turn: TurnId,
        seq: Seq,
    ) -> Result<Option<AttachedTurn>, DialectError> {
        let results = asked.conversation.results();
        let calls: Vec<&ToolId> = asked.conversation.calls();
        let has = |id: &ToolId| results.iter().any(|given| given.id == *id);
        if results.is_empty() || !calls.into_iter().all(has) {
            return Ok(None);
        }
        // Of several requests that bring these results, only one may deliver them.
        if self.state.recent_requests.take_waiting(turn) != Some(seq) {
            return Ok(None);
        }
        let from = ShownFrom::AfterEvent(seq);
        let watch = self.state.engine.watch(turn, 0).await?;
        // Remember the request before the results are given: a retry may arrive while the agent
        // answers.
        self.remember(asked, turn, from);
        let noted = self.record_in_store(asked, session.id, turn, from).await?;
        for given in results {
            let engine = &self.state.engine;
            match engine.send_tool_result(turn, given.id, given.ok, given.content).await {
                Ok(()) => {}
                Err(EngineError::NotRunning) => {
                    self.state.recent_requests.forget(turn);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(AttachedTurn {
            turn,
            session: session.id,
            start: from,
            watch,
            pending_commit: Some(noted),
            mode: session.spec.mode,
            options: asked.options.clone(),
        }))
    }

    async fn interrupt(self, turn: TurnId) {
        self.state.recent_requests.take_waiting(turn);
        if let Err(error) = self.state.engine.interrupt(turn, false).await {
            tracing::debug!(%turn, %error, "the turn had already ended");
        }
    }

    /// Submits the next turn of a session that already has the conversation.
    async fn continue_session(
        self,
        asked: &ResolvedRequest,
        session: &SessionRecord,
    ) -> Result<AttachedTurn, DialectError> {
        if !asked.launch.fits(&session.spec) || !asked.conversation.results().is_empty() {
            return self.relaunch_session(asked, session).await;
        }
        let mut input = match &asked.request.messages.last() {
            // The answer was cut short, and the caller wants the rest.
            Some(last) if last.role == Role::Assistant => vec![Content::text(CONTINUE_PROMPT)],
            _ => asked.conversation.input(),
        };
        input.extend(asked.constraint.instruction());
        self.submit(asked, session.id, input, None).await
    }

    /// Submits the next turn of a session whose agent must be replaced: the new agent is given the
    /// conversation.
    async fn relaunch_session(
        self,
        asked: &ResolvedRequest,
        session: &SessionRecord,
    ) -> Result<AttachedTurn, DialectError> {
        let history = self.history(asked, session).await?;
        if asked.launch.capabilities.carry_history {
            let engine = &self.state.engine;
            let (mut spec, input) = spec_with_history(asked, history.clone())?;
            let newest = engine.turns(Some(session.id), Page::first(1)).await?;
            spec.history_until = newest.first().map(|turn| turn.id);
            if engine.relaunch_session(session.id, spec).await? {
                return self.submit(asked, session.id, input, None).await;
            }
        }
        self.start_session(asked, history, None).await
    }

    /// Starts a new session and gives it the conversation with its real roles.
    async fn start_session(
        self,
        asked: &ResolvedRequest,
        history: Vec<HistoryMessage>,
        name: Option<ExternalName>,
    ) -> Result<AttachedTurn, DialectError> {
        let (spec, input) = spec_with_history(asked, history)?;
        // Another request may have started to use a named session, so it must not be deleted.
        let is_ours = name.is_none();
        let new = NewSession { spec, title: None, name };
        let session = self.state.engine.create_session(new).await?.id;
        let made = is_ours.then_some(session);
        self.submit(asked, session, input, made).await
    }

    /// Submits a turn. `made` is the session if it was created for this turn alone; it is deleted
    /// again if the turn turns out to be a repeat or is refused.
    async fn submit(
        self,
        asked: &ResolvedRequest,
        session: SessionId,
        input: Vec<Content>,
        made: Option<SessionId>,
    ) -> Result<AttachedTurn, DialectError> {
        let engine = &self.state.engine;
        let new = Submission {
            key: self.request_key(asked),
            history_hash: Some(asked.hashes.content),
            ..Submission::new(session, input, asked.options.clone())
        };
        let submitted = engine.submit_with(new).await;
        let unused = submitted.as_ref().map_or(true, |submitted| submitted.is_repeat);
        if unused && let Some(made) = made {
            engine.delete_session(made).await?;
        }
        let submitted = submitted?;
        let from = ShownFrom::Part(0);
        self.remember(asked, submitted.turn, from);
        let (session, noted) = if submitted.is_repeat {
            let session = engine.turn(submitted.turn).await?.session;
            let noted = self.record_in_store(asked, session, submitted.turn, from).await?;
            (session, Some(noted))
        } else {
            (session, None)
        };
        Ok(AttachedTurn {
            turn: submitted.turn,
            session,
            start: from,
            watch: submitted.watch,
            pending_commit: noted,
            mode: asked.launch.spec.mode,
            options: asked.options.clone(),
        })
    }
}

/// Returns the specification of a session that starts with the given history, and its first input.
fn spec_with_history(
    asked: &ResolvedRequest,
    mut history: Vec<HistoryMessage>,
) -> Result<(SessionSpec, Vec<Content>), DialectError> {
    let incoming = &asked.conversation;
    if incoming.new_messages.is_empty() {
        return Err(InvalidRequest::new(
            "the last message is the assistant's; an answer cannot be begun for the model",
        )
        .at("messages")
        .into());
    }
    let mut input = incoming.input();
    if !incoming.results().is_empty() {
        history.extend(incoming.new_messages.iter().cloned());
        input = vec![Content::text(RESULTS_PROMPT)];
    }
    let mut spec = asked.launch.spec.clone();
    if asked.launch.capabilities.carry_history {
        spec.history = history;
    } else if !history.is_empty() {
        input.insert(0, Content::Text(conversation::render_history(&history)));
    }
    input.extend(asked.constraint.instruction());
    Ok((spec, input))
}

impl From<EngineError> for DialectError {
    fn from(error: EngineError) -> Self {
        if let EngineError::QueueFull { .. } = error {
            return Self::new(ErrorKind::Busy, error.to_string());
        }
        crate::http::ApiError::from(error).into()
    }
}
