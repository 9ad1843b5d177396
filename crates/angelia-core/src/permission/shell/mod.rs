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
//! - `wrappers.rs`: the table of commands that run other commands.
//! - `invocations.rs`: follows wrappers and nested shells to the programs that are started.

mod assignment;
mod here_documents;
mod invocations;
mod parser;
mod reader;
mod word;
mod wrappers;

#[cfg(test)]
mod tests;

pub(crate) use invocations::{Invocation, Invocations};
pub(crate) use parser::parse;
#[cfg(test)]
pub(crate) use tests::SPELLINGS;
pub(crate) use word::{Piece, Redirect, RedirectKind, Script, SimpleCommand, Word};

/// The reason why a script could not be parsed.
pub(crate) type Unparsed = &'static str;
