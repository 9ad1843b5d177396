//! The client side of ACP: agents may ask us to read and write files and to run programs, only
//! inside the working directory.
//!
//! | | needs |
//! |---|---|
//! | read a file | nothing, unless `disallowed_tools` names `read_text_file` |
//! | write a file | an approval as an edit, by `write_text_file` |
//! | run a program | an approval as a command, by `terminal` |
//!
//! The files and the command of a tool call that was approved need no second approval.
//!
//! - `request`: parses the agent's requests. Pure.
//! - `files`: file access that cannot leave the working directory.
//! - `terminal`: running programs.
//! - `service`: carries out the requests.

mod files;
mod request;
mod service;
mod terminal;

pub(crate) use self::{
    request::{ToolGrantRef, parse_request},
    service::{ClientResponse, Service},
};
pub use request::ClientRequest;
