//! Shell scripts as data: which simple commands a script can run, and what they redirect.
//!
//! The parser is total and errs on the safe side. It reads the grammar that `sh`, `bash` and `zsh`
//! share; where they differ, or where a construct is rare, it refuses to parse. A script that is
//! parsed runs no other commands than those listed, except through an interpreter, a script file,
//! or what a listed command starts by itself.
//!
//! - `word.rs`: words, and which parts of them are known before the script runs.
//! - `reader.rs`: reads words, quotes and expansions; `here_documents.rs`: the texts after a line.
//! - `parser.rs`: reads commands and the constructs around them.
//! - `assignment.rs`: finds assignments among words.
//! - `invocations.rs`: follows a script to the programs that it starts, with `following.rs` for
//!   wrappers, `nested_shells.rs` for shells, and `variables.rs` for what is set.
//! - `wrappers.rs` and `wrapper_table.rs`: the commands that run other commands.
//! - `options.rs`: the options whose value is run; `languages.rs`: programs in other languages.

mod assignment;
mod following;
mod here_documents;
mod invocations;
mod languages;
mod nested_shells;
mod options;
mod parser;
mod reader;
mod variables;
mod word;
mod wrapper_table;
mod wrappers;

#[cfg(test)]
mod everyday;
#[cfg(test)]
mod spellings;
#[cfg(test)]
mod tests;

pub(crate) use invocations::{Invocation, Invocations};
pub(crate) use options::running_options;
pub(crate) use parser::parse;
#[cfg(test)]
pub(crate) use spellings::SPELLINGS;
pub(crate) use word::{Piece, Redirect, RedirectKind, Script, SimpleCommand, Word};
pub(crate) use wrappers::folded;

/// The reason why a script could not be parsed.
pub(crate) type Unparsed = &'static str;
