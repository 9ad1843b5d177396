//! The vocabulary of the bus: endpoints and messages.

mod endpoint;
mod message;

pub use endpoint::{BadEndpointName, EndpointName};
pub use message::{Destination, Message, MessageContent, MessageId};
