//! Input from a client: reads its frames and executes them.

use std::{borrow::Cow, io};

use angelia_core::{
    model::{EndpointName, bus::BusMessage},
    ports::bus::{AttachError, AttachRequest, BusPosition, Claimant, NameConflictPolicy},
};
use angelia_wire::frame::{Frame, FrameDecoder};
use tokio::time::Instant;

use super::{BusConnection, CloseReason, ConnectionPhase};
use crate::{
    bus::{
        MAX_FRAME_BYTES, admin,
        envelope::{self, MessageFrame, MessageSender},
        in_flight::InFlight,
        reply,
        request::{FrameFields, FrameKind, MalformedFrame, is_true, scalar_text},
    },
    socket::{AgentSessions, LocalCaller, Peer},
};

impl BusConnection {
    pub(super) async fn read(&mut self) -> Result<(), CloseReason> {
        match self.stream.try_read_buf(self.frames.buffer()) {
            Ok(0) => {
                self.release_inbox();
                self.phase = ConnectionPhase::Closing;
                return Ok(());
            }
            Ok(_) if self.phase == ConnectionPhase::Displaced => return Err(CloseReason::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_gone) => return Err(CloseReason::Lost),
        }
        let mut frames = std::mem::replace(&mut self.frames, FrameDecoder::new(MAX_FRAME_BYTES));
        let mut messages = Vec::new();
        let mut acknowledged = Vec::new();
        let mut result = Ok(());
        while let Some(frame) = frames.next() {
            result = self.handle_frame(frame, &mut messages, &mut acknowledged).await;
            if result.is_err() {
                break;
            }
        }
        frames.shrink();
        self.frames = frames;
        if let Some(inbox) = &mut self.inbox
            && !acknowledged.is_empty()
        {
            inbox.ack(&acknowledged);
        }
        // Messages before a malformed frame are valid and are still published.
        self.publish(messages);
        result
    }

    async fn handle_frame(
        &mut self,
        frame: Frame<'_>,
        messages: &mut Vec<BusMessage>,
        acknowledged: &mut Vec<BusPosition>,
    ) -> Result<(), CloseReason> {
        let read = match frame {
            Frame::Whole(bytes) => std::str::from_utf8(bytes).map_err(|_not_text| MalformedFrame),
            Frame::TooLong { .. } => Err(MalformedFrame),
        };
        let done = match read {
            Ok(frame) => self.handle_text(frame, messages, acknowledged).await,
            Err(malformed) => Err(malformed),
        };
        match done {
            Ok(result) => result,
            Err(MalformedFrame) if self.uses_acks => {
                let detail = "not a frame of the bus protocol: a frame is one JSON object";
                reply::rejected(&mut self.out, None, "malformed", detail);
                Ok(())
            }
            Err(MalformedFrame) => Err(CloseReason::Closed),
        }
    }

    async fn handle_text(
        &mut self,
        frame: &str,
        messages: &mut Vec<BusMessage>,
        acknowledged: &mut Vec<BusPosition>,
    ) -> Result<Result<(), CloseReason>, MalformedFrame> {
        let fields = FrameFields::parse(frame)?;
        let kind = fields.kind();
        if kind != FrameKind::ListEndpoints {
            self.last_input = Instant::now();
        }
        if !kind.is_open_to_agents()
            && find_claimant(&self.peer, &*self.context.agents).await != Some(Claimant::Owner)
        {
            let detail = "an agent's process cannot do this; the owner can";
            reply::rejected(&mut self.out, None, "not_granted", detail);
            return Ok(Ok(()));
        }
        match kind {
            FrameKind::Message => self.handle_message(frame, &fields, messages).await?,
            FrameKind::Ack => self.collect_acks(&fields, acknowledged)?,
            FrameKind::Refuse => self.refuse_message(&fields)?,
            FrameKind::Ping => {
                let asks = is_true(fields.ack);
                self.uses_acks |= self.name.is_none() && asks;
                reply::pong(&mut self.out, asks && self.uses_acks);
            }
            FrameKind::ListEndpoints => {
                reply::endpoints(&mut self.out, &self.context.bus.listeners());
            }
            FrameKind::Register => return self.register(&fields).await,
            FrameKind::Status => admin::status(&mut self.out, &self.context),
            FrameKind::DeadLetters => {
                admin::dead_letters(&mut self.out, &self.context, &fields).await;
            }
            FrameKind::Resend => admin::resend(&mut self.out, &self.context, &fields).await,
            FrameKind::Discard => admin::discard(&mut self.out, &self.context, &fields).await,
            FrameKind::Unknown => {}
        }
        Ok(Ok(()))
    }

    async fn register(
        &mut self,
        fields: &FrameFields<'_>,
    ) -> Result<Result<(), CloseReason>, MalformedFrame> {
        if self.name.is_some() {
            // Only the first `register` of a connection counts.
            return Ok(Ok(()));
        }
        let endpoint = fields.endpoint.ok_or(MalformedFrame)?;
        let name = scalar_text(endpoint)?.ok_or(MalformedFrame)?;
        self.uses_acks |= is_true(fields.ack);
        let name = match EndpointName::new(&name) {
            Ok(name) => name,
            Err(error) => {
                self.refuse_registration("invalid_name", &error.to_string());
                return Ok(Err(CloseReason::Closed));
            }
        };
        let Some(claimant) = find_claimant(&self.peer, &*self.context.agents).await else {
            let detail = "an agent's process can register only while a session uses it";
            self.refuse_registration("not_granted", detail);
            return Ok(Err(CloseReason::Closed));
        };
        let claim = AttachRequest {
            name,
            on_conflict: if is_true(fields.prefix) {
                NameConflictPolicy::Suffix
            } else {
                NameConflictPolicy::Displace
            },
            claimant,
            durable: is_true(fields.durable),
            token: match fields.token {
                Some(token) => scalar_text(token)?.map(Cow::into_owned),
                None => None,
            },
        };
        let inbox = match self.context.bus.attach(claim).await {
            Ok(inbox) => inbox,
            Err(error) => {
                let reason = match error {
                    AttachError::Taken(_) | AttachError::NoSuffix(_) => "taken",
                    AttachError::WrongToken(_) => "wrong_token",
                    AttachError::TokenTooLate(_) => "token_too_late",
                    AttachError::NotGranted(_) => "not_granted",
                    AttachError::Bus(_) => "storage",
                };
                self.refuse_registration(reason, &error.to_string());
                return Ok(Err(CloseReason::Closed));
            }
        };
        let name = inbox.endpoint().clone();
        // Without `prefix`, the client gets its name back exactly as written, as in hermes-bus.
        let given = if is_true(fields.prefix) {
            envelope::json_string(name.as_str())
        } else {
            endpoint.get().to_owned()
        };
        reply::registered(&mut self.out, &given, inbox.session());
        self.is_proven = inbox.is_proven();
        self.in_flight = InFlight::new(self.uses_acks);
        self.inbox = Some(inbox);
        self.name = Some(name);
        let silence = Instant::now() + self.context.limits.silence_timeout;
        self.timer.as_mut().reset(silence);
        Ok(Ok(()))
    }

    fn refuse_registration(&mut self, reason: &str, detail: &str) {
        if self.uses_acks {
            reply::rejected(&mut self.out, None, reason, detail);
        } else {
            reply::error(&mut self.out, reason, detail, None);
        }
    }

    async fn handle_message(
        &mut self,
        frame: &str,
        fields: &FrameFields<'_>,
        messages: &mut Vec<BusMessage>,
    ) -> Result<(), MalformedFrame> {
        self.uses_acks |= self.name.is_none() && is_true(fields.ack);
        let sender = match &self.name {
            Some(name) => MessageSender::Registered(name.clone(), self.is_proven),
            None => MessageSender::Unregistered(self.proves_sender(fields)?),
        };
        let agent = match find_claimant(&self.peer, &*self.context.agents).await {
            Some(Claimant::Agent(session)) => session.parse().ok(),
            Some(Claimant::Owner | Claimant::Host) | None => None,
        };
        let now = self.context.clock.now();
        match envelope::decode_message(frame, fields, &sender, agent, now)? {
            MessageFrame::Message(message) => {
                if self.context.message_feed.receiver_count() > 0 {
                    let _nobody_listens = self.context.message_feed.send(message.clone());
                }
                messages.push(message);
            }
            MessageFrame::BadName { id, why } if self.uses_acks => {
                reply::rejected(&mut self.out, Some(&id), "invalid_name", why);
            }
            MessageFrame::BadName { id, why } => {
                reply::error(&mut self.out, "endpoint_not_found", why, Some(&id));
            }
        }
        Ok(())
    }

    /// Returns whether the sender claims a name and has sent that name's token.
    fn proves_sender(&self, fields: &FrameFields<'_>) -> Result<bool, MalformedFrame> {
        let (Some(from), Some(token)) = (fields.from, fields.token) else {
            return Ok(false);
        };
        let (Some(from), Some(token)) = (scalar_text(from)?, scalar_text(token)?) else {
            return Ok(false);
        };
        Ok(self.context.bus.verify_token(&from, &token))
    }

    fn collect_acks(
        &mut self,
        fields: &FrameFields<'_>,
        acknowledged: &mut Vec<BusPosition>,
    ) -> Result<(), MalformedFrame> {
        if let Some(id) = fields.id
            && let Some(id) = scalar_text(id)?
        {
            acknowledged.extend(self.in_flight.take_acknowledged(&id));
        }
        if let Some(ids) = fields.ids {
            let ids: Vec<String> =
                serde_json::from_str(ids.get()).map_err(|_no_list| MalformedFrame)?;
            for id in ids {
                acknowledged.extend(self.in_flight.take_acknowledged(&id));
            }
        }
        Ok(())
    }

    fn refuse_message(&mut self, fields: &FrameFields<'_>) -> Result<(), MalformedFrame> {
        let id = fields.id.ok_or(MalformedFrame)?;
        let id = scalar_text(id)?.ok_or(MalformedFrame)?;
        let reason = match fields.reason {
            Some(reason) => scalar_text(reason)?,
            None => None,
        };
        let position = self.in_flight.take_acknowledged(&id);
        if let (Some(position), Some(inbox)) = (position, &mut self.inbox) {
            inbox.dead_letter(
                position,
                reason.as_deref().unwrap_or("the receiver refused the message"),
            );
        }
        Ok(())
    }
}

/// Returns the claimant behind a connection, or `None` for an agent whose session is unknown.
async fn find_claimant(peer: &Peer, agents: &dyn AgentSessions) -> Option<Claimant> {
    match peer.caller().await {
        LocalCaller::Owner => Some(Claimant::Owner),
        LocalCaller::Agent(marks) => {
            // Use the outermost mark: no process can change its ancestors' variables.
            let session = marks.iter().rev().find_map(|mark| agents.session_of(mark))?;
            Some(Claimant::Agent(session.to_string().into()))
        }
        LocalCaller::Unidentified | LocalCaller::Remote => None,
    }
}
