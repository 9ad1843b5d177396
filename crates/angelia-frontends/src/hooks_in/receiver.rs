//! Starts a turn for a signed request, only once, and sends its answer.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineError, NewSession, RequestKey, Submission, TurnWatch},
    model::{
        Content, ExternalName, Failure, SessionId, SessionSource, TurnId, TurnOptions, TurnOrigin,
    },
    ports::{ChatStore, HookAnswer, ProfileRequest, Profiles, StoreError},
    task::TaskGroup,
};
use serde_json::Value;

use super::{
    scheme::{HookRequest, HookScheme},
    template::{DEFAULT_PROMPT, Quoting, render},
};
use crate::{
    schedules::ResultDelivery,
    unattended_turn::{StartError, result_text, wait_for_outcome},
};

/// How long a repeated request is recognised.
const KEY_LIFETIME: Duration = Duration::from_hours(24);

/// The scope of session names that come from hooks.
const NAME_SCOPE: &str = "hook";

/// A webhook that the owner configured.
#[derive(Clone)]
pub struct HookIn {
    pub scheme: HookScheme,
    pub secret: Arc<str>,
    pub profile: Option<Arc<str>>,
    /// A template for the session's name. Without one, each request gets its own session.
    pub session: Option<Arc<str>>,
    /// A template for the prompt.
    pub prompt: Option<Arc<str>>,
    /// The channel or endpoint that gets the answer.
    pub reply: Option<Arc<str>>,
}

pub struct HooksInParts {
    pub hooks: BTreeMap<Arc<str>, HookIn>,
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub chats: Arc<dyn ChatStore>,
    pub results: ResultDelivery,
    pub tasks: TaskGroup,
}

/// Receives webhooks. Cheap to clone.
#[derive(Clone)]
pub struct HooksIn {
    parts: Arc<HooksInParts>,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    Begun {
        turn: TurnId,
        session: SessionId,
    },
    /// The same request arrived before.
    Repeated,
    /// The sender checks whether the address is ours, and gets this text back.
    Challenge(String),
}

#[derive(Debug, thiserror::Error)]
pub enum HookRefusal {
    #[error("there is no webhook of this name, or its signature is missing, wrong or too old")]
    NotAccepted,
    #[error("the template of the webhook `{0}` does not fit this request: {1}")]
    Template(Arc<str>, String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Profile(Failure),
}

impl From<StartError> for HookRefusal {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Engine(error) => Self::Engine(error),
            StartError::Profile(failure) => Self::Profile(failure),
        }
    }
}

impl HooksIn {
    pub fn new(parts: HooksInParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Resumes the turns whose answers an earlier process did not send.
    pub async fn recover(&self) -> Result<(), StoreError> {
        for answer in self.parts.chats.hook_answers().await? {
            match self.parts.engine.watch(answer.turn, 0).await {
                Ok(watch) => self.spawn_answer(answer, watch),
                Err(_gone) => self.parts.chats.remove_hook_answer(answer.turn).await?,
            }
        }
        Ok(())
    }

    /// Verifies a request and starts its turn.
    pub async fn receive(
        &self,
        name: &str,
        request: HookRequest<'_>,
    ) -> Result<HookOutcome, HookRefusal> {
        let engine = &self.parts.engine;
        // An unknown name gets the same answer as a wrong signature, so that strangers cannot probe
        // for names.
        let (name, hook) = self.parts.hooks.get_key_value(name).ok_or(HookRefusal::NotAccepted)?;
        let now = engine.now().as_second();
        let id = hook.scheme.verify(&hook.secret, request, now).ok_or(HookRefusal::NotAccepted)?;
        if let Some(challenge) = slack_challenge(hook.scheme, request.body) {
            return Ok(HookOutcome::Challenge(challenge));
        }
        let key = RequestKey {
            caller: format!("hook:{name}").into(),
            key: id.into(),
            // A constant, because the id alone identifies the request.
            input: Some([0; 32]),
            window: KEY_LIFETIME,
        };
        if engine.find_by_key(key.clone()).await?.is_some() {
            return Ok(HookOutcome::Repeated);
        }
        let fill = |template: &str, quoting| {
            render(template, name, request.headers, request.body, quoting)
                .map_err(|error| HookRefusal::Template(Arc::clone(name), error))
        };
        let prompt = fill(hook.prompt.as_deref().unwrap_or(DEFAULT_PROMPT), Quoting::Json)?;
        let session = hook.session.as_deref().map(|name| fill(name, Quoting::Plain)).transpose()?;
        let session = self.find_or_create_session(name, hook, session).await?;
        // There is no person to ask, and nothing in the text may act as a command.
        let options = TurnOptions { can_park: true, ..TurnOptions::new(TurnOrigin::Remote) };
        let submission = Submission {
            key: Some(key),
            one_off: hook.session.is_none(),
            ..Submission::new(session, vec![Content::text(prompt)], options)
        };
        let submitted = engine.submit_with(submission).await?;
        if submitted.is_repeat {
            return Ok(HookOutcome::Repeated);
        }
        let turn = submitted.turn;
        if let Some(to) = &hook.reply {
            let answer = HookAnswer { turn, hook: Arc::clone(name), to: Arc::clone(to) };
            let kept = self.parts.chats.put_hook_answer(answer.clone()).await;
            kept.map_err(EngineError::from)?;
            self.spawn_answer(answer, submitted.watch);
        }
        Ok(HookOutcome::Begun { turn, session })
    }

    async fn find_or_create_session(
        &self,
        hook_name: &Arc<str>,
        hook: &HookIn,
        session: Option<String>,
    ) -> Result<SessionId, StartError> {
        let engine = &self.parts.engine;
        let name = session.map(|name| ExternalName {
            scope: NAME_SCOPE.into(),
            name: format!("{hook_name}\u{1f}{name}").into(),
        });
        if let Some(name) = &name
            && let Some(known) = engine.find_by_name(name).await?
        {
            return Ok(known);
        }
        let wanted = ProfileRequest {
            profile: hook.profile.clone(),
            // A stranger's data must not make an agent act on this machine, unless the owner allows it.
            prefers_model_mode: true,
            ..ProfileRequest::default()
        };
        let spec = self.parts.profiles.resolve(wanted).await.map_err(StartError::Profile)?;
        let title = Some(format!("webhook: {hook_name}").into());
        let source = Some(SessionSource::Hook(Arc::clone(hook_name)));
        Ok(engine.create_session(NewSession { spec, title, name, source }).await?.id)
    }

    /// Sends the answer of a turn once it has ended. Forgets the pending answer only after handing
    /// it over.
    fn spawn_answer(&self, answer: HookAnswer, watch: TurnWatch) {
        let this = self.clone();
        self.parts.tasks.spawn_until_stopped(async move {
            let (status, text) = match wait_for_outcome(watch).await {
                Ok(outcome) => (outcome.status.as_str(), result_text(&outcome)),
                // This process leaves the turn to the next one, which will find the pending answer.
                Err(_left) => return,
            };
            let parts = &this.parts;
            let id = format!("hook-{}", answer.turn);
            let about = serde_json::json!({
                "type": "webhook", "text": text, "status": status,
                "hook": &*answer.hook, "turn_id": answer.turn.to_string(),
            });
            if let Err(error) =
                parts.results.send_text(&id, &answer.to, &text, &about, parts.engine.now()).await
            {
                tracing::warn!(
                    "the answer to the webhook {} was not delivered: {error}",
                    answer.hook
                );
            }
            if let Err(error) = parts.chats.remove_hook_answer(answer.turn).await {
                tracing::warn!(%error, "an answer to a webhook may be sent again");
            }
        });
    }
}

/// Returns the challenge that Slack expects back when the owner enters the address.
fn slack_challenge(scheme: HookScheme, body: &[u8]) -> Option<String> {
    if scheme != HookScheme::Slack {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    (body["type"] == "url_verification").then(|| body["challenge"].as_str().map(str::to_owned))?
}

impl fmt::Debug for HookIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookIn").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl fmt::Debug for HooksIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

impl fmt::Debug for HooksInParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HooksIn").field("hooks", &self.hooks).finish_non_exhaustive()
    }
}
