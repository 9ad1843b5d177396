//! Input from a client: reads its frames and carries them out.

use std::{borrow::Cow, io};

use angelia_core::{
    model::{EndpointName, bus::Message},
    ports::bus::{AttachError, Claim, Position, WhenTaken},
};
use angelia_wire::frame::{Frame, Frames};
use tokio::time::Instant;

use super::{Connection, Over, State};
use crate::bus::{
    MAX_FRAME, admin,
    envelope::{self, Letter, Sender},
    handing::Handing,
    reply,
    request::{Fields, Kind, Malformed, is_true, text},
};

impl Connection {
    pub(super) async fn read(&mut self) -> Result<(), Over> {
        match self.stream.try_read_buf(self.frames.buffer()) {
            Ok(0) => {
                self.leave();
                self.state = State::Ending;
                return Ok(());
            }
            Ok(_) if self.state == State::Displaced => return Err(Over::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_gone) => return Err(Over::Lost),
        }
        let mut frames = std::mem::replace(&mut self.frames, Frames::new(MAX_FRAME));
        let mut messages = Vec::new();
        let mut acknowledged = Vec::new();
        let mut result = Ok(());
        while let Some(frame) = frames.next() {
            result = self.frame(frame, &mut messages, &mut acknowledged).await;
            if result.is_err() {
                break;
            }
        }
        frames.rest();
        self.frames = frames;
        if let Some(inbox) = &mut self.inbox
            && !acknowledged.is_empty()
        {
            inbox.ack(&acknowledged);
        }
        // Messages before a malformed frame are valid and are published all the same.
        self.publish(messages);
        result
    }

    async fn frame(
        &mut self,
        frame: Frame<'_>,
        messages: &mut Vec<Message>,
        acknowledged: &mut Vec<Position>,
    ) -> Result<(), Over> {
        let read = match frame {
            Frame::Whole(bytes) => std::str::from_utf8(bytes).map_err(|_not_text| Malformed),
            Frame::TooLong { .. } => Err(Malformed),
        };
        let done = match read {
            Ok(frame) => self.understood(frame, messages, acknowledged).await,
            Err(malformed) => Err(malformed),
        };
        match done {
            Ok(result) => result,
            Err(Malformed) if self.asks => {
                let detail = "not a frame of the bus protocol: a frame is one JSON object";
                reply::rejected(&mut self.out, None, "malformed", detail);
                Ok(())
            }
            Err(Malformed) => Err(Over::Closed),
        }
    }

    async fn understood(
        &mut self,
        frame: &str,
        messages: &mut Vec<Message>,
        acknowledged: &mut Vec<Position>,
    ) -> Result<Result<(), Over>, Malformed> {
        let fields = Fields::read(frame)?;
        let kind = fields.kind();
        if kind != Kind::ListEndpoints {
            self.last_heard = Instant::now();
        }
        match kind {
            Kind::Message => self.message(frame, &fields, messages)?,
            Kind::Ack => self.acknowledged(&fields, acknowledged)?,
            Kind::Refuse => self.refused(&fields)?,
            Kind::Ping => reply::pong(&mut self.out),
            Kind::ListEndpoints => {
                reply::endpoints(&mut self.out, &self.door.bus.listening());
            }
            Kind::Register => return self.register(&fields).await,
            Kind::Status => admin::status(&mut self.out, &self.door),
            Kind::DeadLetters => admin::dead_letters(&mut self.out, &self.door, &fields).await,
            Kind::Resend => admin::resend(&mut self.out, &self.door, &fields).await,
            Kind::Discard => admin::discard(&mut self.out, &self.door, &fields).await,
            Kind::Unknown => {}
        }
        Ok(Ok(()))
    }

    async fn register(&mut self, fields: &Fields<'_>) -> Result<Result<(), Over>, Malformed> {
        if self.name.is_some() {
            // Only the first `register` of a connection counts.
            return Ok(Ok(()));
        }
        let endpoint = fields.endpoint.ok_or(Malformed)?;
        let name = text(endpoint)?.ok_or(Malformed)?;
        self.asks |= is_true(fields.ack);
        let name = match EndpointName::new(&name) {
            Ok(name) => name,
            Err(error) => {
                self.not_registered("invalid_name", &error.to_string());
                return Ok(Err(Over::Closed));
            }
        };
        let claim = Claim {
            name,
            taken: if is_true(fields.prefix) { WhenTaken::Suffix } else { WhenTaken::Displace },
            durable: is_true(fields.durable),
            token: match fields.token {
                Some(token) => text(token)?.map(Cow::into_owned),
                None => None,
            },
        };
        let inbox = match self.door.bus.attach(claim).await {
            Ok(inbox) => inbox,
            Err(error) => {
                let reason = match error {
                    AttachError::Taken(_) | AttachError::NoSuffix(_) => "taken",
                    AttachError::WrongToken(_) => "wrong_token",
                    AttachError::Bus(_) => "storage",
                };
                self.not_registered(reason, &error.to_string());
                return Ok(Err(Over::Closed));
            }
        };
        let name = inbox.endpoint().clone();
        // Without `prefix` the client gets its name back exactly as it wrote it, as in hermes-bus.
        let given = if is_true(fields.prefix) {
            envelope::json(name.as_str())
        } else {
            endpoint.get().to_owned()
        };
        reply::registered(&mut self.out, &given, inbox.session());
        self.handing = Handing::new(self.asks);
        self.inbox = Some(inbox);
        self.name = Some(name);
        let silence = Instant::now() + self.door.limits.silence;
        self.timer.as_mut().reset(silence);
        Ok(Ok(()))
    }

    fn not_registered(&mut self, reason: &str, detail: &str) {
        if self.asks {
            reply::rejected(&mut self.out, None, reason, detail);
        } else {
            reply::error(&mut self.out, reason, detail, None);
        }
    }

    fn message(
        &mut self,
        frame: &str,
        fields: &Fields<'_>,
        messages: &mut Vec<Message>,
    ) -> Result<(), Malformed> {
        self.asks |= self.name.is_none() && is_true(fields.ack);
        let sender = match &self.name {
            Some(name) => Sender::Registered(name.clone()),
            None => Sender::Unregistered(self.is_proven(fields)?),
        };
        match envelope::letter(frame, fields, &sender, self.door.clock.now())? {
            Letter::Message(message) => {
                if self.door.heard.receiver_count() > 0 {
                    let _nobody_listens = self.door.heard.send(message.clone());
                }
                messages.push(message);
            }
            Letter::BadName { id, why } if self.asks => {
                reply::rejected(&mut self.out, Some(&id), "invalid_name", why);
            }
            Letter::BadName { id, why } => {
                reply::error(&mut self.out, "endpoint_not_found", why, Some(&id));
            }
        }
        Ok(())
    }

    /// Returns whether the sender claims a name and has sent that name's token.
    fn is_proven(&self, fields: &Fields<'_>) -> Result<bool, Malformed> {
        let (Some(from), Some(token)) = (fields.from, fields.token) else {
            return Ok(false);
        };
        let (Some(from), Some(token)) = (text(from)?, text(token)?) else {
            return Ok(false);
        };
        Ok(self.door.bus.proves(&from, &token))
    }

    fn acknowledged(
        &mut self,
        fields: &Fields<'_>,
        acknowledged: &mut Vec<Position>,
    ) -> Result<(), Malformed> {
        if let Some(id) = fields.id
            && let Some(id) = text(id)?
        {
            acknowledged.extend(self.handing.acknowledged(&id));
        }
        if let Some(ids) = fields.ids {
            let ids: Vec<String> = serde_json::from_str(ids.get()).map_err(|_no_list| Malformed)?;
            for id in ids {
                acknowledged.extend(self.handing.acknowledged(&id));
            }
        }
        Ok(())
    }

    fn refused(&mut self, fields: &Fields<'_>) -> Result<(), Malformed> {
        let id = fields.id.ok_or(Malformed)?;
        let id = text(id)?.ok_or(Malformed)?;
        let reason = match fields.reason {
            Some(reason) => text(reason)?,
            None => None,
        };
        let position = self.handing.acknowledged(&id);
        if let (Some(position), Some(inbox)) = (position, &mut self.inbox) {
            inbox.refuse(position, reason.as_deref().unwrap_or("the receiver refused the message"));
        }
        Ok(())
    }
}
