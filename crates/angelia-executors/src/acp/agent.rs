//! A running agent with one conversation and many turns: how its messages, decisions and its exit
//! are handled. The loop of a turn is in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Level, Notice, Origin, Status, Turn,
        Verdict,
    },
    ports::{Agent, BoxFuture, Emitted, Ended, TurnControl, TurnIo},
    redact::Redactor,
};
use angelia_wire::{
    jsonrpc::{self, Answered, ErrorObject, Incoming},
    ndjson::Frame,
};
use tokio::time::timeout;

use super::{
    client::{Served, Service, Wish},
    connection::{Connection, Waiting, last_line},
    protocol::outgoing,
    translate::{Answer, Decided, Translator},
};
use crate::{claude::escape, process::bound::Bound};

/// The time for an agent to read the last line, or to stop its tools, before it is terminated.
const LAST_CHANCE: Duration = Duration::from_millis(500);

/// The notification by which an agent withdraws one of its requests.
const TAKEN_BACK: &str = "$/cancel_request";

#[derive(Debug)]
pub(super) struct AcpAgent {
    pub(super) connection: Connection,
    pub(super) translator: Translator,
    pub(super) service: Service,
    pub(super) redactor: Redactor,
    /// Events to emit at the beginning of the first turn.
    pub(super) first_words: Vec<Emitted>,
    /// Content sent before the first message: an appended system prompt, a history from elsewhere.
    pub(super) preface: Vec<Content>,
    /// Output of an earlier turn may still arrive.
    pub(super) unsettled: bool,
    /// The agent must not be used for another turn.
    pub(super) retired: bool,
    /// A turn has begun and not ended. Stays `true` if the future of [`Agent::run`] is dropped.
    pub(super) in_turn: bool,
    pub(super) bound: Option<Bound>,
}

impl Agent for AcpAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, Ended> {
        Box::pin(self.turn(turn, io))
    }

    fn is_usable(&mut self) -> bool {
        !self.retired && !self.in_turn && self.connection.link.is_open()
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut this = *self;
            this.cancel_before_close(grace).await;
            this.service.close().await;
            this.connection.link.close(grace).await;
            drop(this.bound);
        })
    }
}

impl AcpAgent {
    /// Returns the content of the prompt. Text from a remote sender is neutralised, so that it
    /// cannot trigger the agent's commands.
    pub(super) fn content(&mut self, turn: &Turn) -> Vec<Content> {
        let mut content = std::mem::take(&mut self.preface);
        content.extend(turn.input.iter().map(|one| match one {
            Content::Text(text) if turn.options.origin == Origin::Remote => {
                Content::Text(Arc::from(&*escape::neutral(text)))
            }
            other => other.clone(),
        }));
        content
    }

    /// Translates every line that has arrived. Events after the end of the turn are discarded.
    pub(super) async fn translate(&mut self, batch: &mut Vec<Emitted>) -> Option<Ended> {
        let mut ended = None;
        let mut nobody = Vec::new();
        loop {
            let out = if ended.is_none() { &mut *batch } else { &mut nobody };
            let Some(heard) = self.heard(out) else { break };
            match heard {
                Heard::Nothing => {}
                Heard::Ended(end) => ended = ended.or(Some(end)),
                Heard::Wish(id, wish) => self.serve(id, wish).await,
            }
        }
        ended
    }

    /// Handles the next line. `None`: no further line has arrived.
    fn heard(&mut self, out: &mut Vec<Emitted>) -> Option<Heard> {
        let Self { connection, translator, .. } = self;
        let frame = connection.link.output.framer.next()?;
        let line = match frame {
            Frame::Line(line) | Frame::Partial(line) => line,
            Frame::TooLong { bytes, .. } => {
                translator.too_long(bytes, out);
                return Some(Heard::Nothing);
            }
        };
        match jsonrpc::decode(line) {
            Ok(Incoming::Notification { method, params }) if method == TAKEN_BACK => {
                let decided = translator.taken_back(params, out);
                if let Some(line) = decided.as_ref().and_then(spelled) {
                    connection.link.input.push(line);
                }
            }
            Ok(Incoming::Notification { method, params }) => {
                translator.notification(&method, params, out);
            }
            Ok(Incoming::Request { id, method, params }) => {
                let answer = translator.request(&id, &method, params, out);
                let line = match answer {
                    Answer::Now(result) => outgoing::result(&id, &result),
                    Answer::Error(error) => outgoing::error(&id, &error),
                    Answer::Asked => return Some(Heard::Nothing),
                    Answer::Do(wish) => return Some(Heard::Wish(id.into_owned(), wish)),
                };
                connection.link.input.push(line);
            }
            Ok(Incoming::Response { id: Some(id), result }) => {
                if let Answered::By(Waiting::Prompt) = connection.pending.answered(&id)
                    && translator.in_turn()
                {
                    // Open approvals are withdrawn first: ending the turn would drop their request
                    // ids, and the agent would wait for an answer for ever.
                    let unanswered = translator.withdraw(out);
                    let ended = translator.answered(result, out);
                    for decided in unanswered {
                        if let Some(line) = spelled(&decided) {
                            connection.link.input.push(line);
                        }
                    }
                    return Some(Heard::Ended(ended));
                }
            }
            Ok(Incoming::Response { id: None, .. }) | Err(_) => translator.no_message(line, out),
        }
        Some(Heard::Nothing)
    }

    /// Starts to carry out a request of the agent.
    pub(super) async fn serve(&mut self, id: jsonrpc::Id<'static>, wish: Wish) {
        // Keep the output for the tool result: a released terminal forgets it.
        if let Wish::Release(terminal) | Wish::Kill(terminal) = &wish
            && let Some(text) = self.service.said(terminal)
        {
            self.translator.terminal_said(terminal, &text);
        }
        if let Some(served) = self.service.begin(id, wish).await {
            self.served(&served);
        }
    }

    /// Sends the agent the response to one of its requests.
    pub(super) fn served(&mut self, served: &Served) {
        if let Some(terminal) = &served.terminal
            && let Some(text) = self.service.said(terminal)
        {
            self.translator.terminal_said(terminal, &text);
        }
        let line = match &served.result {
            Ok(value) => outgoing::result(&served.id, &outgoing::raw(value)),
            Err(error) => outgoing::error(&served.id, error),
        };
        self.connection.link.input.push(line);
    }

    /// Handles a control message of the engine. `true`: the turn must be stopped.
    pub(super) async fn control(&mut self, control: TurnControl, batch: &mut Vec<Emitted>) -> bool {
        match control {
            TurnControl::Decide { key, decision } => {
                self.decided(&key, &decision, batch).await;
                decision.verdict == Verdict::Stop
            }
            // Our capabilities say `steer: false`, so this is not expected.
            TurnControl::Steer(_) => {
                let text = "an ACP agent takes no messages during a turn; send it again afterwards";
                let notice = Notice::new(Level::Warning, "not_steered", text);
                batch.push(Emitted::Event(EventKind::Notice(notice)));
                false
            }
            TurnControl::ToolResult { .. } => false,
        }
    }

    async fn decided(&mut self, key: &str, decision: &Decision, batch: &mut Vec<Emitted>) {
        match self.translator.decide(key, decision, batch) {
            Some(Decided::Do(id, wish)) => self.serve(id, wish).await,
            Some(other) => {
                if let Some(line) = spelled(&other) {
                    self.connection.link.input.push(line);
                }
            }
            None => {}
        }
    }

    /// Asks the agent to stop the turn. Its open permission requests are answered first, because
    /// the protocol requires a client to answer them as cancelled.
    pub(super) fn cancel(&mut self, batch: &mut Vec<Emitted>) {
        for decided in self.translator.stop(batch) {
            if let Some(line) = spelled(&decided) {
                self.connection.link.input.push(line);
            }
        }
        let session = self.translator.session().as_str();
        self.connection.link.input.push(outgoing::cancel(session));
    }

    pub(super) async fn output_ended(&mut self, batch: &mut Vec<Emitted>) -> Ended {
        self.retired = true;
        let ended = self.translator.end_of_output(batch);
        let ended = ended.unwrap_or_else(|| Ended::failed(Failure::new(FailureKind::Agent, "")));
        match ended.status {
            Status::Failed(_) => Ended {
                status: Status::Failed(self.died("in the middle of the turn").await),
                ..ended
            },
            _ => ended,
        }
    }

    pub(super) async fn died(&mut self, when: &str) -> Failure {
        self.retired = true;
        let agent = self.translator.greeting().name();
        let words = self.connection.link.last_words(&self.redactor).await;
        Failure::new(FailureKind::Agent, format!("{agent} ended {when}: {words}"))
            .with_hint("send the message again; the session continues where it was")
    }

    /// Adds the last line of stderr to the message if the agent itself failed.
    pub(super) fn with_last_words(&self, mut ended: Ended) -> Ended {
        if let Status::Failed(failure) = &mut ended.status
            && failure.kind == FailureKind::Agent
        {
            let stderr =
                (self.connection.link.child.stderr()).tail(|text| self.redactor.redact(text));
            let last = last_line(&stderr);
            if let Some(last) = last {
                let words = crate::prose::cut(last, 400);
                failure.message = format!("{}; it said: {words}", failure.message).into();
            }
        }
        ended
    }

    /// Writes the queued lines, as far as the agent reads them in time.
    pub(super) async fn flush(&mut self) {
        let input = &mut self.connection.link.input;
        if input.has_more() && !self.retired {
            let written = timeout(LAST_CHANCE, input.write_all()).await;
            self.retired |= written.is_err();
        }
    }

    /// Cancels a running turn before the process is stopped, so that the agent ends its own tools.
    async fn cancel_before_close(&mut self, grace: Duration) {
        if !self.connection.link.is_open() || !self.in_turn {
            return;
        }
        let mut nobody = Vec::new();
        self.cancel(&mut nobody);
        let stopped = async {
            loop {
                let link = &mut self.connection.link;
                let has_more = link.input.has_more();
                let more = tokio::select! {
                    biased;
                    () = link.input.write(), if has_more => true,
                    more = link.output.read() => more,
                };
                nobody.clear();
                if self.translate(&mut nobody).await.is_some() || !more {
                    return;
                }
            }
        };
        // If the agent does not stop in time, closing the link terminates it.
        let _ = timeout(LAST_CHANCE.min(grace), stopped).await;
    }
}

/// The effect of one line from the agent.
enum Heard {
    Nothing,
    Ended(Ended),
    Wish(jsonrpc::Id<'static>, Wish),
}

/// Encodes the response to a decided request. `None`: the request must be carried out first.
fn spelled(decided: &Decided) -> Option<Vec<u8>> {
    match decided {
        Decided::Reply(id, result) => Some(outgoing::result(id, result)),
        Decided::Refuse(id, why) => {
            let error = ErrorObject::new(jsonrpc::INTERNAL_ERROR, &**why);
            Some(outgoing::error(id, &error))
        }
        Decided::Do(..) => None,
    }
}
