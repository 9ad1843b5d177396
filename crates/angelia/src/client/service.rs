//! The turns that run in the daemon.

use std::sync::Arc;

use angelia_core::model::{ApprovalId, Decision, SessionId, TurnId};
use angelia_frontends::{
    http::{
        CompactionResult, DecisionBody, InterruptBody, NewSessionBody, SessionChangeBody,
        resources::{ResourceList, SessionResource, TurnResource},
    },
    turn_service::{
        AcceptedTurn, ServiceFuture, TurnErrorKind, TurnEventSource, TurnService, TurnSubmission,
    },
};
use hyper::Method;

use super::{DaemonClient, followed_turn::FollowedTurn, percent_encode, request};

impl TurnService for DaemonClient {
    fn is_shared(&self) -> bool {
        true
    }

    fn session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            Ok(self.call_json(request(Method::GET, &format!("/api/sessions/{id}"))).await?)
        })
    }

    fn find_session<'a>(&'a self, name: &'a str) -> ServiceFuture<'a, Option<SessionResource>> {
        Box::pin(async move {
            let path = format!("/api/sessions?name={}", percent_encode(name));
            let found: ResourceList<_> = self.call_json(request(Method::GET, &path)).await?;
            Ok(found.data.into_iter().next())
        })
    }

    fn create_session(
        &self,
        new: NewSessionBody,
        at_terminal: bool,
    ) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            let mut request = request(Method::POST, "/api/sessions").json(&new)?;
            if at_terminal {
                request = request.mark_from_terminal();
            }
            Ok(self.call_json(request).await?)
        })
    }

    fn change_model(&self, id: SessionId, model: Arc<str>) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            let change = SessionChangeBody { model: Some(model), title: None };
            let request = request(Method::PATCH, &format!("/api/sessions/{id}")).json(&change)?;
            Ok(self.call_json(request).await?)
        })
    }

    fn fork_session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            let path = format!("/api/sessions/{id}/fork");
            Ok(self.call_json(request(Method::POST, &path)).await?)
        })
    }

    fn compact_session(&self, id: SessionId) -> ServiceFuture<'_, CompactionResult> {
        Box::pin(async move {
            let path = format!("/api/sessions/{id}/compact");
            let request = request(Method::POST, &path).waiting_for_a_model();
            let result = self.call_json(request).await;
            result.map_err(|error| error.into_service_error(TurnErrorKind::TurnRunning))
        })
    }

    fn delete_session(&self, id: SessionId) -> ServiceFuture<'_, ()> {
        Box::pin(async move {
            let path = format!("/api/sessions/{id}");
            self.send_and_read(request(Method::DELETE, &path)).await?;
            Ok(())
        })
    }

    fn submit(&self, new: TurnSubmission) -> ServiceFuture<'_, AcceptedTurn> {
        Box::pin(async move {
            let submitted = self.submit(&new).await;
            let (accepted, is_repeat) =
                submitted.map_err(|error| error.into_service_error(TurnErrorKind::KeyReused))?;
            let turn = accepted.id;
            // Only follow a turn that another connection submitted: it ends with that connection.
            let events = if new.hold && !is_repeat {
                self.hold_turn(turn).await?
            } else {
                self.events(turn, 0).await?
            };
            let events = Box::new(FollowedTurn::new(turn, Some(new.session), events));
            Ok(AcceptedTurn { turn, is_repeat, events })
        })
    }

    fn watch(&self, turn: TurnId) -> ServiceFuture<'_, Box<dyn TurnEventSource>> {
        Box::pin(async move {
            let events = self.events(turn, 0).await?;
            Ok(Box::new(FollowedTurn::new(turn, None, events)) as _)
        })
    }

    fn turn(&self, id: TurnId) -> ServiceFuture<'_, TurnResource> {
        Box::pin(async move {
            Ok(self.call_json(request(Method::GET, &format!("/api/turns/{id}"))).await?)
        })
    }

    fn interrupt(&self, turn: TurnId, kill: bool) -> ServiceFuture<'_, ()> {
        Box::pin(async move {
            let path = format!("/api/turns/{turn}/interrupt");
            let request = request(Method::POST, &path).json(&InterruptBody { kill })?;
            self.send_and_read(request).await?;
            Ok(())
        })
    }

    fn decide(&self, approval: ApprovalId, decision: Decision) -> ServiceFuture<'_, ()> {
        Box::pin(async move {
            let path = format!("/api/approvals/{approval}");
            let request = request(Method::POST, &path).json(&DecisionBody::from(decision))?;
            let decided = self.send_and_read(request).await.map(drop);
            decided.map_err(|error| error.into_service_error(TurnErrorKind::NotPending))
        })
    }
}
