//! Accepts a new turn of a session: checks for room in the queue, reserves money, and commits the
//! turn.

use std::sync::Arc;

use super::{
    budget::lower_limit,
    changes::EngineChange,
    engine_state::EngineState,
    facade::{EngineError, SubmitReply},
    session_actor::{QueuedTurn, SessionActor},
    session_command::SubmitCommand,
    spend::{SpendLimit, SpendReservation},
};
use crate::{
    model::{TurnId, TurnOptions, TurnState, TurnTask},
    ports::{ClaimOutcome, NewTurn, Store},
};

impl SessionActor {
    /// Commits a new turn and queues it, unless an earlier request with the same key created one.
    pub(super) async fn accept_turn(&mut self, submit: SubmitCommand, idle: bool) {
        let SubmitCommand { mut new_turn, spend_limit, one_off, log, reply } = submit;
        let running = idle && self.queue.is_empty();
        let can_accept = match self.check_can_accept(new_turn.record.options.task, running) {
            // A reader of the new turn must find the end of the previous one.
            Ok(()) => self.write_kept_ends().await.map_err(EngineError::from),
            refused => refused,
        };
        let spend = match can_accept {
            Ok(()) => self.reserve_spend(&new_turn.record.options, spend_limit).await,
            Err(refused) => Err(refused),
        };
        let spend = match spend {
            Ok(spend) => spend,
            Err(refused) => {
                let answer = answer_without_room(&*self.shared.store, &new_turn, refused).await;
                // The submitter may have disconnected.
                let _gone = reply.send(answer);
                return;
            }
        };
        let options = &mut new_turn.record.options;
        let max_cost_usd = options.max_cost_usd;
        if let Some(spend) = &spend {
            // The recorded limit also applies to work that the turn delegates.
            options.max_cost_usd = lower_limit(max_cost_usd, Some(spend.spendable_usd()));
        }
        if running {
            new_turn.record.state = TurnState::Running;
        }
        // Register the log before storing the turn, because a repeated request finds the turn in
        // the store and watches it through this log.
        self.shared.insert_log(&log);
        let turn = log.turn;
        let created = self.shared.store.create_turn(&self.lease, &new_turn).await;
        let accepted = match created {
            // The store may have committed the turn although it reported an error. In that case the
            // turn must run, because nothing else would ever end it.
            Err(error) if error.is_temporary() && self.is_created(turn).await => {
                tracing::warn!(%turn, %error, "the turn is recorded in spite of an error");
                Ok(ClaimOutcome::New)
            }
            created => created,
        };
        let accepted = match accepted {
            Ok(ClaimOutcome::New) => {
                let turn = new_turn.record.into();
                self.queue.push_back(QueuedTurn {
                    turn,
                    log,
                    max_cost_usd,
                    spend,
                    parked_until: None,
                    was_running: running,
                    one_off,
                });
                Ok(if running { SubmitReply::Running } else { SubmitReply::Queued })
            }
            Ok(ClaimOutcome::Repeats(known)) => Ok(SubmitReply::AlreadySubmitted(known)),
            Ok(ClaimOutcome::Conflicts(known)) => Err(EngineError::KeyReused(known)),
            Err(error) => {
                self.stop_if_lease_lost(&error);
                Err(error.into())
            }
        };
        if matches!(accepted, Ok(SubmitReply::Running | SubmitReply::Queued)) {
            self.announce(EngineChange::Turn(turn));
            self.announce(EngineChange::Session(self.record.id));
        } else {
            self.shared.remove_log(turn);
        }
        let _gone = reply.send(accepted);
    }

    /// Reserves money for a turn whose account has a spending limit.
    async fn reserve_spend(
        &mut self,
        options: &TurnOptions,
        limit: Option<SpendLimit>,
    ) -> Result<Option<Arc<SpendReservation>>, EngineError> {
        let own_limit = lower_limit(self.record.spec.budgets.cost_usd, options.max_cost_usd);
        let EngineState { store, clock, spend, .. } = &*self.shared;
        let ports = (&**store, &**clock);
        spend.reserve(ports, options, limit, own_limit).await
    }

    async fn is_created(&mut self, turn: TurnId) -> bool {
        matches!(self.shared.store.turn(turn).await, Ok(Some(_)))
    }

    /// Checks whether a turn can be accepted. `is_free` means that the turn would run at once.
    fn check_can_accept(&self, task: TurnTask, is_free: bool) -> Result<(), EngineError> {
        let limit = self.shared.limits.max_queued_turns;
        if self.stop.is_cancelled() || self.shared.drain.is_draining() {
            return Err(EngineError::ShuttingDown);
        }
        if task == TurnTask::Compact && !is_free {
            return Err(EngineError::TurnRunning);
        }
        if self.queue.len() >= limit {
            return Err(EngineError::QueueFull { limit });
        }
        Ok(())
    }
}

/// Answers a request for which the queue has no room or whose caller has no money left. A repeated
/// request needs neither, because its turn already exists.
async fn answer_without_room(
    store: &dyn Store,
    new_turn: &NewTurn,
    refused: EngineError,
) -> Result<SubmitReply, EngineError> {
    let Some(claim) = &new_turn.claim else {
        return Err(refused);
    };
    if !matches!(refused, EngineError::QueueFull { .. } | EngineError::Failed(_)) {
        return Err(refused);
    }
    match store.check_claim(claim).await? {
        ClaimOutcome::New => Err(refused),
        ClaimOutcome::Repeats(known) => Ok(SubmitReply::AlreadySubmitted(known)),
        ClaimOutcome::Conflicts(known) => Err(EngineError::KeyReused(known)),
    }
}
