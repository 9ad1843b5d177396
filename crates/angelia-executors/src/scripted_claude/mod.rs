//! Claude Code's side of the stream-json protocol, with a script in place of a model.
//!
//! Two programs use it: the demo agent ([`parrot`](super::parrot)), and the fake CLI of the tests
//! and benchmarks. Each of them describes itself with a [`ClaudeSetup`] and writes its turns
//! through [`ScriptedTurn`]; everything that the protocol prescribes is here.
//!
//! The process has one thread and buffers all lines until it waits, because the benchmarks need an
//! agent that takes no time itself. A turn that waits (for the next word, for an answer, or for an
//! interrupt) handles input meanwhile, so control requests are answered and interrupts take effect.
//!
//! - `claude`: the conversation, from the first line of stdin to the exit code.
//! - `control`: the answers to control requests.
//! - `stdin`: reads and parses the lines of stdin.
//! - `lines`: builds the lines of stdout.
//! - `tokens`: counts the usage of a turn.
//! - `turn`, `message`, `permission`, `result`: the parts of a turn.

mod claude;
mod control;
mod lines;
mod message;
mod permission;
mod result;
mod stdin;
mod tokens;
mod turn;

pub use claude::{ClaudeSetup, EarlyExit, ScriptedClaude, TurnAbort};
pub use message::BlockChannel;
pub use permission::{CallReport, PermissionVerdict, ToolRequest};
pub use result::{ApiFailure, TurnEnding};
pub use stdin::{UserMessage, content_text};
pub use tokens::{TokenCounting, TokenCounts};
pub use turn::{ControlReply, ScriptedTurn};
