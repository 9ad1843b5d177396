//! What agents may have done by us, and only inside the working directory: reading and writing
//! files, running programs.
//!
//! | | needs |
//! |---|---|
//! | read a file | nothing, unless `disallowed_tools` names `read_text_file` |
//! | write a file | an approval as an edit, by `write_text_file` |
//! | run a program | an approval as a command, by `terminal` |
//!
//! What somebody has allowed as part of a tool call is not asked again: its files, its command.
//!
//! - `wish`: what is wanted, read from the request. Pure.
//! - `files`: paths, and nothing outside; `terminal`: programs; `serve`: all of it done.

mod files;
mod serve;
mod terminal;
mod wish;

pub(crate) use self::{
    serve::{Served, Service},
    wish::{Granted, wish},
};
pub use wish::Wish;
