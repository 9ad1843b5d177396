//! The detours after a failed request: a renewed key, another key, another model. Notices report
//! them, and the other sessions of this process learn from them.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{EventKind, Failure, Notice, NoticeLevel, RawJson},
    ports::AgentEvent,
};
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::time::Instant;

use super::{TurnRun, TurnStop, engine_link::EngineLink};
use crate::native::{
    model_chain::{FreeLink, Route},
    provider::{ErrorClass, ProviderError},
    providers::{ChosenKey, KeyChoice, KeyFault, choose_next_key},
    retry::{AttemptFault, Detours, RetryStep},
};

/// The alternatives to sending the same request again, ready to be taken.
#[derive(Debug, Default)]
pub(super) struct FoundDetours {
    renewed_key: Option<ChosenKey>,
    other_key: Option<(ChosenKey, Duration)>,
    other_model: Option<FreeLink>,
    on_probation: bool,
}

impl FoundDetours {
    pub(super) fn summary(&self) -> Detours {
        Detours {
            renewed_key: self.renewed_key.is_some(),
            other_key: self.other_key.as_ref().map(|(_, wait)| *wait),
            other_model: self.other_model.is_some(),
            on_probation: self.on_probation,
        }
    }
}

/// The fields of `fell_back` and `returned`.
#[derive(Serialize)]
struct ChangeDetail<'a> {
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// The fields of `key_rotated`. Keys are identified by their fingerprints.
#[derive(Serialize)]
struct RotationDetail<'a> {
    provider: &'a str,
    from: String,
    to: String,
    reason: &'a str,
}

impl TurnRun<'_> {
    /// Looks for alternatives after a fault, and records what the fault says about the key.
    pub(super) async fn find_detours(&mut self, fault: &AttemptFault) -> FoundDetours {
        let setup = self.setup;
        let error = match fault {
            AttemptFault::Error(error) => Some(error),
            AttemptFault::Dropped | AttemptFault::Certificate => None,
        };
        let mut found =
            FoundDetours { on_probation: self.route.on_probation, ..FoundDetours::default() };
        if let (Some(error), Some(key)) = (error, self.route.key.clone()) {
            if error.class == ErrorClass::Auth
                && !error.is_upstream
                && !self.renewed_keys.contains(&key.source)
            {
                self.renewed_keys.push(key.source.clone());
                let renewed = key.source.renew(&key.key, &setup.host).await;
                let renewed = renewed.filter(|renewed| *renewed != key.key);
                found.renewed_key =
                    renewed.map(|new| ChosenKey { source: key.source.clone(), key: new });
            }
            if found.renewed_key.is_none() && error.concerns_key() {
                self.pause_key(&key, error);
                found.other_key = self.find_other_key(&key).await;
            }
        }
        if error.is_none_or(ProviderError::is_of_provider) {
            found.other_model = setup.chain.find_other(&self.tried_models).await;
        }
        found
    }

    /// Pauses a key for all sessions.
    fn pause_key(&self, key: &ChosenKey, error: &ProviderError) {
        let fault = match error.class {
            ErrorClass::Auth if error.is_revoked() => KeyFault::Revoked,
            ErrorClass::Auth => KeyFault::Refused,
            ErrorClass::Billing => KeyFault::Unpaid,
            _ => KeyFault::Limited,
        };
        let issuer = &self.route.model.issuer;
        self.setup.host.providers.health().pause_key(
            (&issuer.provider, &issuer.model),
            key,
            (fault, error.retry_after),
            &error.message,
            Instant::now(),
        );
    }

    /// Returns another key, and how long to wait until it can be used.
    async fn find_other_key(&self, key: &ChosenKey) -> Option<(ChosenKey, Duration)> {
        let model = &self.route.model;
        let host = &self.setup.host;
        let next = choose_next_key(&model.provider, &model.issuer.model, &key.source, host);
        match next.await? {
            KeyChoice::Usable(next) => Some((next, Duration::ZERO)),
            KeyChoice::Paused { key: next, left, .. } => Some((next, left)),
            KeyChoice::NotNeeded | KeyChoice::Revoked { .. } => None,
        }
    }

    /// Pauses a model for all sessions, if the next step gives up on it.
    pub(super) fn record_departure(&self, fault: &AttemptFault, step: &RetryStep) {
        let (RetryStep::FallBack(failure) | RetryStep::GiveUp(failure)) = step else { return };
        let stated = match fault {
            // The key is already paused, and other keys may work.
            AttemptFault::Error(error) if error.concerns_key() && self.route.key.is_some() => {
                return;
            }
            AttemptFault::Error(error) if !error.is_of_provider() => return,
            AttemptFault::Error(error) => error.retry_after,
            AttemptFault::Dropped | AttemptFault::Certificate => None,
        };
        let issuer = &self.route.model.issuer;
        let model = (&*issuer.provider, &*issuer.model);
        let health = self.setup.host.providers.health();
        health.pause_model(model, stated, &failure.message, Instant::now());
    }

    /// Forgets the failures of the model and its key, because they have answered.
    pub(super) fn record_success(&mut self) {
        let issuer = &self.route.model.issuer;
        let health = self.setup.host.providers.health();
        health.record_answer(&issuer.provider, &issuer.model, self.route.key.as_ref());
        self.route.on_probation = false;
        self.first_failure = None;
    }

    /// Switches to the renewed key.
    pub(super) fn take_renewed_key(&mut self, found: FoundDetours) -> Result<(), TurnStop> {
        if let Some(key) = found.renewed_key {
            self.route.take_key(key)?;
        }
        Ok(())
    }

    /// Switches to another key, and reports it.
    pub(super) async fn rotate_key(
        &mut self,
        found: FoundDetours,
        reason: &str,
        link: &EngineLink,
    ) -> Result<(), TurnStop> {
        let (Some((next, _)), Some(last)) = (found.other_key, self.route.key.clone()) else {
            return Ok(());
        };
        let provider = Arc::clone(&self.route.model.issuer.provider);
        let (from, to) = (last.key.fingerprint(), next.key.fingerprint());
        let text = format!("{provider}: switched from the key {from}… to {to}…: {reason}");
        let detail = RotationDetail { provider: &provider, from, to, reason };
        self.route.take_key(next)?;
        tell("key_rotated", NoticeLevel::Warning, text, &detail, link).await;
        Ok(())
    }

    /// Switches to another model for the rest of the turn, and reports it.
    pub(super) async fn fall_back(
        &mut self,
        found: FoundDetours,
        failure: Failure,
        link: &mut EngineLink,
    ) -> Result<(), TurnStop> {
        let reason = Arc::clone(&failure.message);
        let first = self.first_failure.get_or_insert(failure).clone();
        let Some(free) = found.other_model else { return Err(first.into()) };
        let route = link.run(self.setup.chain.route(free)).await?;
        let Ok(route) = route else { return Err(first.into()) };
        self.take_route(route);
        self.tell_change(Some(&reason), link).await;
        Ok(())
    }

    /// Returns the failure of the turn, which is that of the first model that was asked.
    pub(super) fn first_failure(&mut self, stop: TurnStop) -> TurnStop {
        match (stop, self.first_failure.take()) {
            (TurnStop::Failed(_) | TurnStop::UnknownModel(_), Some(first)) => {
                TurnStop::Failed(first)
            }
            (stop, _) => stop,
        }
    }

    /// Sends the following requests to another model.
    fn take_route(&mut self, route: Route) {
        self.state.take_request_of(&route);
        self.tried_models.push(route.place);
        self.usage.lane = Some(route.lane().into());
        self.usage.prefix_sha256 = Some(self.setup.prefix_of(&route, self.state));
        self.route = route;
    }

    /// Reports a change of the model since the previous request, if there was one.
    pub(super) async fn tell_change(&mut self, reason: Option<&str>, link: &EngineLink) {
        let (last, now) = (self.state.place, self.route.place);
        self.state.place = now;
        if last == now {
            return;
        }
        let chain = &self.setup.chain;
        let (from, to) = (chain.name(last), chain.name(now));
        let detail = ChangeDetail { from: &from, to: &to, reason };
        if let Some(reason) = reason {
            let text = format!("{to} answers instead of {from}: {reason}");
            tell("fell_back", NoticeLevel::Warning, text, &detail, link).await;
        } else {
            let text = format!("{to} answers again instead of {from}");
            tell("returned", NoticeLevel::Info, text, &detail, link).await;
        }
    }
}

async fn tell(
    code: &str,
    level: NoticeLevel,
    text: String,
    detail: &impl Serialize,
    link: &EngineLink,
) {
    let notice = Notice::new(level, code, text);
    let notice = match to_raw_value(detail) {
        Ok(detail) => notice.with_detail(RawJson::from(detail)),
        Err(_) => notice,
    };
    link.send(vec![AgentEvent::Event(EventKind::Notice(notice))]).await;
}
