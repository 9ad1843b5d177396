//! Gets an answer to where it belongs: the channel of the messages, else their sender. What cannot
//! be sent is shown; nothing is lost in silence.

use std::sync::Arc;

use angelia_core::{
    model::{EndpointName, MessageId, Outcome, Status, bus::Message},
    ports::{Bus, Clock, bus::Refusal},
};
use serde_json::{json, value::to_raw_value};

use crate::{
    bus_rules::Screen,
    chat::{Courier, CourierError},
};

/// Where a lane's replies go. Part of the lane's name, so it cannot change under a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReplyTo {
    Channel(Arc<str>),
    /// The name as the sender gave it.
    Sender(Arc<str>),
}

/// What replies are sent with.
#[derive(Clone)]
pub(super) struct Replies {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) courier: Courier,
    pub(super) screen: Arc<dyn Screen>,
    pub(super) clock: Arc<dyn Clock>,
}

/// An answer on its way out.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The same for the same turn, however often it is sent.
    pub(super) id: String,
    pub(super) endpoint: EndpointName,
    pub(super) to: ReplyTo,
    pub(super) answers: Vec<MessageId>,
    pub(super) status: &'static str,
    pub(super) text: String,
}

/// What is said about how a turn ended.
pub(super) fn reply_text(outcome: &Outcome) -> String {
    let text = outcome.text.trim_end();
    let more = match &outcome.status {
        Status::Completed => return text.to_owned(),
        Status::Partial => format!("(stopped early: {})", outcome.reason),
        Status::Interrupted => "(interrupted)".to_owned(),
        Status::Parked { resumes_at } => format!("(waits for a quota until {resumes_at})"),
        Status::Failed(failure) => format!("(failed: {failure})"),
    };
    if text.is_empty() { more } else { format!("{text}\n\n{more}") }
}

impl Replies {
    /// Returns when the reply is kept by somebody who will not lose it, or has been shown.
    pub(super) async fn send(&self, reply: Reply) {
        if reply.text.is_empty() {
            return;
        }
        let sent = match &reply.to {
            ReplyTo::Channel(channel) => self.to_channel(&reply, channel).await,
            ReplyTo::Sender(name) => self.to_sender(&reply, name).await,
        };
        if let Err(why) = sent {
            let what = format!("a reply of {} was not sent: {why}", reply.endpoint);
            self.screen.remark(&what);
            self.screen.show(&reply.text);
        }
    }

    async fn to_channel(&self, reply: &Reply, channel: &str) -> Result<(), String> {
        let sending = self.courier.send(&reply.id, channel, &reply.text).await;
        let sending = sending.map_err(|error: CourierError| error.to_string())?;
        sending.outcome().await.map_err(|error| error.to_string())
    }

    async fn to_sender(&self, reply: &Reply, name: &str) -> Result<(), String> {
        let to = EndpointName::new(name).map_err(|error| error.to_string())?;
        // A one-shot sender has no address: what is sent there would wait for nobody.
        if !self.bus.endpoints().iter().any(|known| known.name == to) {
            return Err(format!("nobody listens as `{to}`"));
        }
        let body = json!({
            "type": "reply",
            "text": reply.text,
            "status": reply.status,
            "in_reply_to": reply.answers,
        });
        let body = to_raw_value(&body).map_err(|error| error.to_string())?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of this century fit into 53 bits"
        )]
        let ts = self.clock.now().as_microsecond() as f64 / 1e6;
        let message = Message::compose(&*reply.id, &reply.endpoint, &to, ts, &body);
        let receipts = self.bus.publish(vec![message], None).await.await;
        let refused = receipts.into_iter().find_map(Result::err);
        refused.map_or(Ok(()), |refusal: Refusal| Err(refusal.to_string()))
    }
}
