//! Sends the result of an occurrence to a channel or to an endpoint of the bus.

use std::{fmt, sync::Arc};

use angelia_core::{
    model::{EndpointName, Occurrence, ScheduleRecord},
    ports::{AddressError, Bus},
};
use jiff::Timestamp;
use serde_json::{json, value::to_raw_value};

use crate::{
    bus_context::{compose, publish_one},
    chat::{DeliveryQueue, PendingDelivery},
};

#[derive(Clone)]
pub struct ResultDelivery {
    pub delivery_queue: DeliveryQueue,
    /// `None`: this daemon has no bus.
    pub bus: Option<Arc<dyn Bus>>,
    /// The endpoint in whose name messages are sent.
    pub from: EndpointName,
}

/// A result that will arrive, or be given up, without further help.
#[derive(Debug)]
pub(super) enum SentResult {
    Nowhere,
    /// The bus has stored it.
    Stored,
    Delivering(PendingDelivery),
}

impl ResultDelivery {
    /// Hands a result over. From then on it survives the death of this process; handing the same one
    /// over again sends nothing twice.
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
        match self.delivery_queue.check_channel(to) {
            Ok(()) => {
                let sending = self.delivery_queue.send(&id, to, text).await;
                return sending.map(SentResult::Delivering).map_err(|error| error.to_string());
            }
            // Without a chat this may be an endpoint.
            Err(AddressError::UnknownPlatform { .. } | AddressError::Malformed(_))
                if !to.contains(':') => {}
            Err(error) => return Err(error.to_string()),
        }
        let bus = self.bus.as_deref().ok_or("this daemon has no bus")?;
        let to = EndpointName::new(to).map_err(|error| error.to_string())?;
        let body = json!({
            "type": "schedule",
            "text": text,
            "status": status,
            "schedule_id": schedule.id.to_string(),
            "due_at": occurrence.due_at.to_string(),
            "turn_id": occurrence.turn.map(|turn| turn.to_string()),
        });
        let body = to_raw_value(&body).map_err(|error| error.to_string())?;
        publish_one(bus, compose(now, &id, &self.from, &to, &body)).await?;
        Ok(SentResult::Stored)
    }
}

impl fmt::Debug for ResultDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultDelivery").field("from", &self.from).finish_non_exhaustive()
    }
}
