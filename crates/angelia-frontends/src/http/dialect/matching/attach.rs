//! Attaches a request to the turn that answers it: finds the turn or the session, and submits the
//! new input there.

use angelia_core::{
    engine::{EngineError, NewSession, Submission, TurnWatch},
    model::{
        Content, ExternalName, HistoryMessage, Role, Seq, SessionId, SessionRecord, SessionSpec,
        ToolId, TurnId,
    },
    ports::{Page, PendingCommit},
};

use super::{
    find::{SessionMatch, find_session},
    repeats,
};
use crate::http::{
    HttpError,
    dialect::{
        AnswerStart, InvalidRequest,
        request::{ResolvedRequest, render_history},
    },
};

/// The prompts for an agent when the caller sends no new input.
const CONTINUE_PROMPT: &str = "Continue where you left off.";
const RESULTS_PROMPT: &str = "Go on with the results of your tools.";

/// The turn that answers a request.
#[derive(Debug)]
pub(in crate::http) struct AttachedTurn {
    pub(in crate::http) id: TurnId,
    pub(in crate::http) session: SessionId,
    pub(in crate::http) start: AnswerStart,
    pub(in crate::http) watch: TurnWatch,
    /// The commit of the request's record. The caller must see nothing before it succeeds.
    pub(in crate::http) pending_commit: Option<PendingCommit>,
}

/// Finds the turn of a request, or submits a new one.
pub(in crate::http) async fn attach(request: &ResolvedRequest) -> Result<AttachedTurn, HttpError> {
    if let Some(turn) = repeats::attach_repeated(request).await? {
        return Ok(turn);
    }
    let engine = &request.state.engine;
    match find_session(request).await? {
        SessionMatch::New(name) => {
            start_session(request, request.conversation.history.clone(), name).await
        }
        SessionMatch::BranchesAt(turn) => {
            let session = engine.turn(turn).await?.session;
            let history = engine.messages_until(session, turn).await?;
            start_session(request, history, None).await
        }
        SessionMatch::AwaitsToolResults(session, turn, seq) => {
            if request.goes_on_in_turn(&session.spec)
                && let Some(turn) = deliver_tool_outputs(request, &session, turn, seq).await?
            {
                return Ok(turn);
            }
            // The request does not contain the results that the turn waits for.
            request.state.recent_requests.take_waiting(turn);
            request.state.interrupt(turn).await;
            start_session(request, history(request, &session).await?, None).await
        }
        SessionMatch::Continues(session, _) if !request.is_same_agent(&session.spec) => {
            start_session(request, history(request, &session).await?, None).await
        }
        SessionMatch::Continues(session, _until_it_is_submitted) => {
            continue_session(request, &session).await
        }
    }
}

/// Returns the earlier conversation: as repeated in the request, or else as recorded.
async fn history(
    request: &ResolvedRequest,
    session: &SessionRecord,
) -> Result<Vec<HistoryMessage>, HttpError> {
    let repeated = &request.conversation.history;
    if repeated.is_empty() {
        Ok(request.state.engine.messages(session.id).await?)
    } else {
        Ok(repeated.clone())
    }
}

/// Delivers tool results to the turn that waits for them. Returns `None` if results are missing or
/// the turn has ended.
async fn deliver_tool_outputs(
    request: &ResolvedRequest,
    session: &SessionRecord,
    turn: TurnId,
    seq: Seq,
) -> Result<Option<AttachedTurn>, HttpError> {
    let engine = &request.state.engine;
    let outputs = request.conversation.results();
    let has = |id: &ToolId| outputs.iter().any(|output| output.id == *id);
    if outputs.is_empty() || !request.conversation.calls().into_iter().all(has) {
        return Ok(None);
    }
    // If several requests contain these results, only one may deliver them.
    if request.state.recent_requests.take_waiting(turn) != Some(seq) {
        return Ok(None);
    }
    let start = AnswerStart::AfterEvent(seq);
    let watch = engine.watch(turn, 0).await?;
    // Remember the request before delivering the results: a retry may arrive while the agent
    // answers.
    repeats::remember(request, turn, start);
    let commit = repeats::record_in_store(request, session.id, turn, start).await?;
    for output in outputs {
        match engine.send_tool_result(turn, output.id, output.ok, output.content).await {
            Ok(()) => {}
            Err(EngineError::NotRunning) => {
                request.state.recent_requests.forget(turn);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let pending_commit = Some(commit);
    Ok(Some(AttachedTurn { id: turn, session: session.id, start, watch, pending_commit }))
}

/// Submits the next turn of a session that already has the conversation.
async fn continue_session(
    request: &ResolvedRequest,
    session: &SessionRecord,
) -> Result<AttachedTurn, HttpError> {
    if !request.fits(&session.spec) || !request.conversation.results().is_empty() {
        return relaunch_session(request, session).await;
    }
    let mut input = match &request.body.messages.last() {
        // The answer was cut short, and the caller wants the rest.
        Some(last) if last.role == Role::Assistant => vec![Content::text(CONTINUE_PROMPT)],
        _ => request.conversation.input(),
    };
    input.extend(request.instruction());
    submit(request, session.id, input, None).await
}

/// Resubmits the turn of a request after the agent that got its tool results died. The new agent
/// gets the conversation and the results.
pub(in crate::http) async fn relaunch(
    request: &ResolvedRequest,
    session: SessionId,
) -> Result<AttachedTurn, HttpError> {
    let session = request.state.engine.session(session).await?;
    relaunch_session(request, &session).await
}

/// Submits the next turn of a session whose agent must be replaced. The new agent gets the
/// conversation.
async fn relaunch_session(
    request: &ResolvedRequest,
    session: &SessionRecord,
) -> Result<AttachedTurn, HttpError> {
    let history = history(request, session).await?;
    if request.capabilities.carry_history {
        let engine = &request.state.engine;
        let (mut spec, input) = spec_with_history(request, history.clone())?;
        let newest = engine.turns(Some(session.id), Page::first(1)).await?;
        spec.history_until = newest.first().map(|turn| turn.id);
        if engine.relaunch_session(session.id, spec).await? {
            return submit(request, session.id, input, None).await;
        }
    }
    start_session(request, history, None).await
}

/// Starts a new session and passes the conversation to it with its real roles.
async fn start_session(
    request: &ResolvedRequest,
    history: Vec<HistoryMessage>,
    name: Option<ExternalName>,
) -> Result<AttachedTurn, HttpError> {
    let (spec, input) = spec_with_history(request, history)?;
    // Another request may already use a named session, so it must not be deleted.
    let is_ours = name.is_none();
    let new =
        NewSession { spec, title: None, name, source: Some(request.principal.session_source()) };
    let session = request.state.engine.create_session(new).await?.id;
    submit(request, session, input, is_ours.then_some(session)).await
}

/// Submits a turn. `created` is the session if it was created only for this turn; it is deleted
/// again if the turn is a repeat or is refused.
async fn submit(
    request: &ResolvedRequest,
    session: SessionId,
    input: Vec<Content>,
    created: Option<SessionId>,
) -> Result<AttachedTurn, HttpError> {
    let engine = &request.state.engine;
    let submission = Submission {
        key: repeats::request_key(request),
        history_hash: Some(repeats::content_hash(request)),
        spend_limit: request.principal.spend_limit(),
        ..Submission::new(session, input, request.options.clone())
    };
    let submitted = engine.submit_with(submission).await;
    let unused = submitted.as_ref().map_or(true, |submitted| submitted.is_repeat);
    if unused && let Some(created) = created {
        engine.delete_session(created).await?;
    }
    let submitted = submitted?;
    let (id, start) = (submitted.turn, AnswerStart::Part(0));
    repeats::remember(request, id, start);
    let mut turn =
        AttachedTurn { id, session, start, watch: submitted.watch, pending_commit: None };
    if submitted.is_repeat {
        turn.session = engine.turn(id).await?.session;
        let commit = repeats::record_in_store(request, turn.session, id, start).await?;
        turn.pending_commit = Some(commit);
    }
    Ok(turn)
}

/// Returns the specification of a session that starts with the given history, and its first input.
fn spec_with_history(
    request: &ResolvedRequest,
    mut history: Vec<HistoryMessage>,
) -> Result<(SessionSpec, Vec<Content>), HttpError> {
    let conversation = &request.conversation;
    if conversation.new_messages.is_empty() {
        return Err(InvalidRequest::new(
            "the last message is the assistant's; the beginning of an answer cannot be prescribed",
        )
        .at("messages")
        .into());
    }
    let mut input = conversation.input();
    if !conversation.results().is_empty() {
        history.extend(conversation.new_messages.iter().cloned());
        input = vec![Content::text(RESULTS_PROMPT)];
    }
    let mut spec = request.spec.clone();
    if request.capabilities.carry_history {
        spec.history = history;
    } else if !history.is_empty() {
        input.insert(0, Content::Text(render_history(&history)));
    }
    input.extend(request.instruction());
    Ok((spec, input))
}
