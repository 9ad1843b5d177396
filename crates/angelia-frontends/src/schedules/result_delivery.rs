//! Sends the result of an occurrence to a channel or a bus endpoint, and checks whether a result
//! could be sent.

use std::{fmt, sync::Arc};

use angelia_core::{
    model::{EndpointName, Occurrence, ScheduleRecord},
    ports::{AddressError, Bus},
};
use jiff::Timestamp;
use serde_json::{json, value::to_raw_value};

use crate::{
    bus_context::{compose, publish_one},
    chat::{DeliveryQueue, DeliveryRequest, PendingDelivery},
};

#[derive(Clone)]
pub struct ResultDelivery {
    pub delivery_queue: DeliveryQueue,
    /// `None` if this daemon has no bus.
    pub bus: Option<Arc<dyn Bus>>,
    /// The endpoint that appears as the sender of messages.
    pub from: EndpointName,
}

/// The target of results, derived from `to`.
enum ResultTarget {
    Channel,
    Endpoint(EndpointName),
}

impl ResultTarget {
    /// Resolves `to`: a configured channel, else an endpoint. Endpoint names cannot contain `:`
    /// here, so that a channel that is not configured is not mistaken for one.
    fn find(to: &str, delivery_queue: &DeliveryQueue) -> Result<Self, String> {
        match delivery_queue.check_channel(to) {
            Ok(()) => Ok(Self::Channel),
            Err(AddressError::UnknownPlatform { .. } | AddressError::Malformed(_))
                if !to.contains(':') =>
            {
                EndpointName::new(to).map(Self::Endpoint).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Checks that a result can be sent to `to`. An unused endpoint is fine, because the bus keeps the
/// message.
pub(crate) fn check_result_target(
    to: &str,
    delivery_queue: &DeliveryQueue,
    has_bus: bool,
) -> Result<(), String> {
    match ResultTarget::find(to, delivery_queue)? {
        ResultTarget::Endpoint(_) if !has_bus => Err(NO_BUS.to_owned()),
        ResultTarget::Endpoint(_) | ResultTarget::Channel => Ok(()),
    }
}

const NO_BUS: &str = "this daemon has no bus";

/// A result that needs no further help to be delivered or given up.
#[derive(Debug)]
pub(crate) enum SentResult {
    Nowhere,
    /// The bus has stored it.
    Stored,
    Delivering(PendingDelivery),
}

impl ResultDelivery {
    /// Hands a result over. From then on it survives the death of this process. Handing over the
    /// same result again does not send it twice.
    pub(super) async fn send(
        &self,
        schedule: &ScheduleRecord,
        occurrence: &Occurrence,
        status: &str,
        text: &str,
        now: Timestamp,
    ) -> Result<SentResult, String> {
        let Some(to) = schedule.to.as_deref().filter(|_| !text.is_empty()) else {
            return Ok(SentResult::Nowhere);
        };
        let id = match occurrence.turn {
            Some(turn) => format!("schedule-{turn}"),
            None => format!("schedule-{}-{}", schedule.id, occurrence.due_at),
        };
        let about = json!({
            "type": "schedule",
            "text": text,
            "status": status,
            "schedule_id": schedule.id.to_string(),
            "due_at": occurrence.due_at.to_string(),
            "turn_id": occurrence.turn.map(|turn| turn.to_string()),
        });
        self.send_text(&id, to, text, &about, now).await
    }

    /// Hands a text over to a channel, or to an endpoint as the message `about`.
    pub(crate) async fn send_text(
        &self,
        id: &str,
        to: &str,
        text: &str,
        about: &serde_json::Value,
        now: Timestamp,
    ) -> Result<SentResult, String> {
        let to = match ResultTarget::find(to, &self.delivery_queue)? {
            ResultTarget::Endpoint(name) => name,
            ResultTarget::Channel => {
                let result = DeliveryRequest::markdown(id, to, text);
                let sending = self.delivery_queue.deliver(result).await;
                return sending.map(SentResult::Delivering).map_err(|error| error.to_string());
            }
        };
        let bus = self.bus.as_deref().ok_or(NO_BUS)?;
        let body = to_raw_value(about).map_err(|error| error.to_string())?;
        publish_one(bus, compose(now, id, &self.from, &to, &body)).await?;
        Ok(SentResult::Stored)
    }
}

impl fmt::Debug for ResultDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultDelivery").field("from", &self.from).finish_non_exhaustive()
    }
}
