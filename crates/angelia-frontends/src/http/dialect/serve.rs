//! Takes a request to its turn: checks the grant, recognises repeats, finds the session and submits
//! the new input.

use std::{fmt, sync::Arc};

use angelia_core::{
    engine::{EngineError, NewSession, Submission},
    model::{
        Content, ExternalName, Message, Mode, Origin, Role, Seq, SessionId, SessionRecord,
        SessionSpec, ToolId, TurnId, TurnOptions,
    },
    ports::Page,
};
use axum::{extract::Request, http::HeaderMap, response::Response};

use super::{
    Ask, Dialect, DialectError, ErrorKind, Refused, ShownFrom,
    answer::{Answer, Taken},
    ceiling,
    demands::Demand,
    incoming::{self, Incoming},
    launch::Launch,
    marks::Marks,
    matching::{self, Place},
    repeats::Keys,
    respond, target,
};
use crate::http::{ApiState, body, keys::Who};

/// Prompts for an agent that gets no new input from the caller.
const GO_ON: &str = "Continue where you left off.";
const RESULTS: &str = "Go on with the results of your tools.";

/// Reads and decodes the body of a request, then serves it.
pub(in crate::http) async fn answer<D: Dialect, E: Into<DialectError>>(
    state: &Arc<ApiState>,
    who: &Who,
    request: Request,
    decode: impl FnOnce(&[u8]) -> Result<(Ask, D), E>,
) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read_whole(&parts.headers, body).await;
    let decoded = match read {
        Ok(bytes) => decode(&bytes).map_err(Into::into),
        Err(error) => Err(error.into()),
    };
    match decoded {
        Ok((ask, dialect)) => serve(state, who, &parts.headers, ask, dialect).await,
        Err(error) => respond::refuse::<D>(&error),
    }
}

/// Serves a decoded request.
pub(in crate::http) async fn serve<D: Dialect>(
    state: &Arc<ApiState>,
    who: &Who,
    headers: &HeaderMap,
    ask: Ask,
    dialect: D,
) -> Response {
    match (Serving { state, who }).begin(headers, ask).await {
        Ok(answer) => respond::respond(answer, dialect).await,
        Err(error) => {
            tracing::debug!(caller = %who.name, %error, "request refused");
            respond::refuse::<D>(&error)
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Serving<'a> {
    pub(super) state: &'a Arc<ApiState>,
    pub(super) who: &'a Who,
}

/// A decoded request with everything that is derived from it before a session is chosen.
pub(super) struct Asked {
    pub(super) ask: Arc<Ask>,
    pub(super) marks: Marks,
    pub(super) incoming: Arc<Incoming>,
    pub(super) keys: Keys,
    pub(super) launch: Launch,
    pub(super) demand: Arc<Demand>,
    pub(super) options: TurnOptions,
}

/// Recovers a request whose tool results were given to an agent process that then died.
pub(super) struct Lost {
    who: Who,
    asked: Arc<Asked>,
    session: SessionId,
}

impl Lost {
    /// Sends the conversation and the results to a new process.
    pub(super) async fn carry(self, state: &Arc<ApiState>) -> Result<Taken, DialectError> {
        let serving = Serving { state, who: &self.who };
        let session = state.engine.session(self.session).await?;
        serving.relaunched(&self.asked, &session).await
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostAgentRecovery").finish_non_exhaustive()
    }
}

impl Serving<'_> {
    async fn begin(self, headers: &HeaderMap, ask: Ask) -> Result<Answer, DialectError> {
        let ask = Arc::new(ask);
        let marks = Marks::of(headers)?;
        let meant = self.meant(&ask)?;
        let incoming = Incoming::new(&ask, &self.who.name, &marks);
        incoming.check()?;
        let launch = Launch::of(self.state, &ask, &meant).await?;
        if incoming.has_images() && !launch.can.images {
            let message = format!("`{}` cannot be shown images", ask.model);
            return Err(Refused::new(message).into());
        }
        let asked = Asked {
            keys: Keys::new(&self.who.name, &ask, &marks, incoming.fingerprint()),
            demand: Arc::new(Demand::of(&ask)?),
            options: self.options(&ask).await?,
            ask,
            marks,
            incoming: Arc::new(incoming),
            launch,
        };
        let asked = Arc::new(asked);
        let attached = match self.repeated(&asked).await? {
            Some(request) => self.attach(&asked, request).await?,
            None => None,
        };
        let taken = match attached {
            Some(taken) => taken,
            None => self.take(&asked).await?,
        };
        // A request with `previous` does not repeat its conversation, so its history has no hash.
        let repeats = asked.ask.previous.is_none();
        let remembered = repeats.then(|| Arc::clone(&asked.incoming));
        // A model-mode agent has no side effects, so running it again is safe.
        let goes_on = matches!(taken.from, ShownFrom::After(_)) && taken.mode == Mode::Model;
        let lost = goes_on.then(|| Lost {
            who: self.who.clone(),
            asked: Arc::clone(&asked),
            session: taken.session,
        });
        let caller = Arc::clone(&self.who.name);
        let demand = Arc::clone(&asked.demand);
        let mut answer = Answer::new(self.state, &asked.ask, caller, remembered, demand, taken);
        answer.lost = lost;
        Ok(answer)
    }

    fn meant(self, ask: &Ask) -> Result<target::Meant, DialectError> {
        let settings = &self.state.models;
        let id = match &settings.utility_profile {
            Some(profile) if ask.is_utility => profile,
            _ => &ask.model,
        };
        let profiles = self.state.profiles.list();
        let meant =
            target::meant(id, settings, &profiles).ok_or_else(|| target::unknown(&ask.model))?;
        target::granted(&meant, settings, self.who)?;
        Ok(meant)
    }

    async fn options(self, _ask: &Ask) -> Result<TurnOptions, DialectError> {
        Ok(TurnOptions {
            caller: matching::caller(self.who),
            max_cost_usd: ceiling::left(self.state, self.who).await?,
            ..TurnOptions::new(Origin::Remote)
        })
    }

    /// Finds the session of the request and submits its new input there.
    async fn take(self, asked: &Asked) -> Result<Taken, DialectError> {
        let Asked { ask, marks, incoming, launch, .. } = asked;
        match matching::place(self.state, self.who, ask, incoming, marks).await? {
            Place::New(name) => self.carried(asked, incoming.history.clone(), name).await,
            Place::BranchesAt(turn) => {
                let engine = &self.state.engine;
                let session = engine.turn(turn).await?.session;
                let history = engine.messages_until(session, turn).await?;
                self.carried(asked, history, None).await
            }
            Place::Waits(session, turn, seq) => {
                if launch.is_akin(&session.spec)
                    && launch.fits(&session.spec)
                    && let Some(taken) = self.answered(asked, &session, turn, seq).await?
                {
                    return Ok(taken);
                }
                // The request does not bring the results that the turn waits for.
                self.interrupt(turn).await;
                let history = self.history(asked, &session).await?;
                self.carried(asked, history, None).await
            }
            Place::Continues(session, _) if !launch.is_akin(&session.spec) => {
                let history = self.history(asked, &session).await?;
                self.carried(asked, history, None).await
            }
            Place::Continues(session, _until_it_is_submitted) => {
                self.continued(asked, &session).await
            }
        }
    }

    /// Returns the earlier conversation: as the request repeats it, otherwise as it is recorded.
    async fn history(
        self,
        asked: &Asked,
        session: &SessionRecord,
    ) -> Result<Vec<Message>, DialectError> {
        if asked.incoming.history.is_empty() {
            Ok(self.state.engine.messages(session.id).await?)
        } else {
            Ok(asked.incoming.history.clone())
        }
    }

    /// Delivers tool results to the turn that waits for them. Returns `None` if results are missing
    /// or the turn has ended.
    async fn answered(
        self,
        asked: &Asked,
        session: &SessionRecord,
        turn: TurnId,
        seq: Seq,
    ) -> Result<Option<Taken>, DialectError> {
        let results = asked.incoming.results();
        let calls: Vec<&ToolId> = asked.incoming.calls();
        let has = |id: &ToolId| results.iter().any(|given| given.id == *id);
        if results.is_empty() || !calls.into_iter().all(has) {
            return Ok(None);
        }
        // Of several requests that bring these results, only one may deliver them.
        if self.state.recent.take_waiting(turn) != Some(seq) {
            return Ok(None);
        }
        let from = ShownFrom::After(seq);
        let watch = self.state.engine.watch(turn, 0).await?;
        // Remember the request before the results are given: a retry may arrive while the agent
        // answers.
        self.remember(asked, turn, from);
        let noted = self.note(asked, session.id, turn, from).await?;
        for given in results {
            let engine = &self.state.engine;
            match engine.give_tool_result(turn, given.id, given.ok, given.content).await {
                Ok(()) => {}
                Err(EngineError::NotRunning) => {
                    self.state.recent.forget(turn);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(Taken {
            turn,
            session: session.id,
            from,
            watch,
            noted: Some(noted),
            mode: session.spec.mode,
            options: asked.options.clone(),
        }))
    }

    async fn interrupt(self, turn: TurnId) {
        self.state.recent.take_waiting(turn);
        if let Err(error) = self.state.engine.interrupt(turn, false).await {
            tracing::debug!(%turn, %error, "the turn had already ended");
        }
    }

    /// Submits the next turn of a session that already has the conversation.
    async fn continued(
        self,
        asked: &Asked,
        session: &SessionRecord,
    ) -> Result<Taken, DialectError> {
        if !asked.launch.fits(&session.spec) || !asked.incoming.results().is_empty() {
            return self.relaunched(asked, session).await;
        }
        let mut input = match &asked.ask.messages.last() {
            // The answer was cut short, and the caller wants the rest.
            Some(last) if last.role == Role::Assistant => vec![Content::text(GO_ON)],
            _ => asked.incoming.input(),
        };
        input.extend(asked.demand.instruction());
        self.submit(asked, session.id, input, None).await
    }

    /// Submits the next turn of a session whose agent must be replaced: the new agent is given the
    /// conversation.
    async fn relaunched(
        self,
        asked: &Asked,
        session: &SessionRecord,
    ) -> Result<Taken, DialectError> {
        let history = self.history(asked, session).await?;
        if asked.launch.can.carry_history {
            let engine = &self.state.engine;
            let (mut spec, input) = retold(asked, history.clone())?;
            let newest = engine.turns(Some(session.id), Page::first(1)).await?;
            spec.history_until = newest.first().map(|turn| turn.id);
            if engine.relaunch_session(session.id, spec).await? {
                return self.submit(asked, session.id, input, None).await;
            }
        }
        self.carried(asked, history, None).await
    }

    /// Starts a new session and gives it the conversation with its real roles.
    async fn carried(
        self,
        asked: &Asked,
        history: Vec<Message>,
        name: Option<ExternalName>,
    ) -> Result<Taken, DialectError> {
        let (spec, input) = retold(asked, history)?;
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
        asked: &Asked,
        session: SessionId,
        input: Vec<Content>,
        made: Option<SessionId>,
    ) -> Result<Taken, DialectError> {
        let engine = &self.state.engine;
        let new = Submission {
            key: self.request_key(asked),
            found_by: Some(asked.keys.plain),
            follows: true,
            ..Submission::new(session, input, asked.options.clone())
        };
        let submitted = engine.submit_as(new).await;
        let unused = submitted.as_ref().map_or(true, |submitted| submitted.repeats);
        if unused && let Some(made) = made {
            engine.delete_session(made).await?;
        }
        let submitted = submitted?;
        let from = ShownFrom::Part(0);
        self.remember(asked, submitted.turn, from);
        let (session, noted) = if submitted.repeats {
            let session = engine.turn(submitted.turn).await?.session;
            let noted = self.note(asked, session, submitted.turn, from).await?;
            (session, Some(noted))
        } else {
            (session, None)
        };
        Ok(Taken {
            turn: submitted.turn,
            session,
            from,
            watch: submitted.watch,
            noted,
            mode: asked.launch.spec.mode,
            options: asked.options.clone(),
        })
    }
}

/// Returns the specification of a session that starts with the given history, and its first input.
fn retold(
    asked: &Asked,
    mut history: Vec<Message>,
) -> Result<(SessionSpec, Vec<Content>), DialectError> {
    let incoming = &asked.incoming;
    if incoming.fresh.is_empty() {
        return Err(Refused::new(
            "the last message is the assistant's; an answer cannot be begun for the model",
        )
        .at("messages")
        .into());
    }
    let mut input = incoming.input();
    if !incoming.results().is_empty() {
        history.extend(incoming.fresh.iter().cloned());
        input = vec![Content::text(RESULTS)];
    }
    let mut spec = asked.launch.spec.clone();
    if asked.launch.can.carry_history {
        spec.history = history;
    } else if !history.is_empty() {
        input.insert(0, Content::Text(incoming::as_text(&history)));
    }
    input.extend(asked.demand.instruction());
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
