//! The vocabulary of the bus: endpoints and messages.

mod endpoint;
mod message;

pub use endpoint::{EndpointName, EndpointNameError};
pub use message::{BusMessage, Destination, MessageContent, MessageId, SENDER_SESSION_FIELD};
