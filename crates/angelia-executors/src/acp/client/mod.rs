//! The client side of ACP: agents may ask us to read and write files and to run programs, but only
//! inside the working directory.
//!
//! | request | requires |
//! |---|---|
//! | read a file | nothing, unless `disallowed_tools` names `read_text_file` |
//! | write a file | approval of an edit, as `write_text_file` |
//! | run a program | approval of a command, as `terminal` |
//!
//! Once a tool call is approved, its files and its command need no second approval.
//!
//! - `request`: parses the agent's requests. Pure.
//! - `files`: file access that cannot leave the working directory.
//! - `terminal`: running programs.
//! - `service`: executes the requests.

mod files;
mod request;
mod service;
mod terminal;

pub(crate) use self::{
    request::{ToolGrantRef, parse_request},
    service::{ClientResponse, Service},
};
pub use request::ClientRequest;
