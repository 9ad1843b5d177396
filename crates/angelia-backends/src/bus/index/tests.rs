//! Tests the limit on all queues together.

use angelia_core::{
    model::{EndpointName, bus::BusMessage},
    ports::bus::{AttachRequest, PublishError},
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{BusIndex, ReservedMessage, Targets};
use crate::bus::limits::{BusLimits, MAX_TOTAL_QUEUED};

fn name(name: &str) -> EndpointName {
    EndpointName::new(name).unwrap()
}

fn reserve(index: &mut BusIndex, to: Option<&str>) -> ReservedMessage {
    let body: &RawValue = serde_json::from_str("1").unwrap();
    let mut message = BusMessage::compose("1", &name("s"), &name(to.unwrap_or("x")), 1.0, body);
    if to.is_none() {
        message.to = angelia_core::model::bus::Destination::Everyone;
    }
    index.reserve(message, 0)
}

#[test]
fn a_broadcast_keeps_to_the_limit_of_the_whole_bus() {
    let mut index = BusIndex::new(BusLimits::default());
    for endpoint in ["a", "b", "c"] {
        index.attach_listener(&AttachRequest::new(name(endpoint)), None, Uuid::new_v4()).unwrap();
    }
    index.queued = MAX_TOTAL_QUEUED - 4;
    let first = reserve(&mut index, None);
    assert_eq!(first.targets.slots().len(), 3);
    let second = reserve(&mut index, None);
    assert!(
        matches!(&second.targets, Targets::Refused(PublishError::BusFull { .. })),
        "the first one is not stored yet, and takes room all the same: {second:?}"
    );
    assert!(matches!(reserve(&mut index, Some("a")).targets, Targets::One(_)), "room for one");
    let full = reserve(&mut index, Some("b"));
    assert!(matches!(&full.targets, Targets::Refused(PublishError::BusFull { .. })), "{full:?}");
    index.unreserve(&first.targets);
    assert_eq!(reserve(&mut index, None).targets.slots().len(), 3, "room again");
}
