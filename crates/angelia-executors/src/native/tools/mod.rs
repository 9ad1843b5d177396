//! The tools of a session, as the loop uses them.
//!
//! ```text
//!  arguments ─ prepare ─► PreparedCall ── plan: class, real paths, command    → schedule, authority
//!                                     ├─ review: is it possible, what changes → the person who decides
//!                                     └─ run: cancellable, bounded output     → the model
//! ```
//!
//! - [`tool`]: the interface: a tool, a call, its plan and its output.
//! - [`toolkit`]: the tools of a session, by name.
//! - [`schedule`]: which calls run at the same time. Pure.
//! - [`workspace`]: the session's directory, and what was read in it.
//! - [`read`], [`edit`], [`write`], [`apply_patch`]: files. `replacement` finds the text that an
//!   edit refers to; [`patch`] parses and applies patches. Both are pure.
//! - `real_file`: opens and replaces files without following links; `text_file`: their byte order
//!   marks and line endings.
//! - [`grep`], [`glob`]: searches, based on `folder_walk` and `search_text`.
//! - [`bash`], [`job`]: commands, in the foreground and in the background ([`jobs`]); [`shell`]
//!   starts them.
//! - `image_type`, `excerpt`, `command_text`: what the model sees. `output_capture` collects the
//!   output of a command, and [`output_folder`] keeps output that is too long.
//! - [`skill`]: loads instructions; [`memory`]: notes for later sessions; [`delegate`]: work for
//!   other agents.
//! - [`todo`], [`ask_user`]: the arguments of tools that the loop runs itself.

pub mod apply_patch;
pub mod ask_user;
pub mod bash;
mod command_text;
pub mod delegate;
pub mod edit;
mod excerpt;
mod folder_walk;
pub mod glob;
pub mod grep;
mod image_type;
pub mod job;
pub mod jobs;
pub mod memory;
mod output_capture;
pub mod output_folder;
pub mod patch;
pub mod read;
mod real_file;
mod replacement;
pub mod schedule;
mod search_text;
pub mod shell;
pub mod skill;
mod text_file;
pub mod todo;
pub mod tool;
pub mod toolkit;
pub mod workspace;
pub mod write;

pub(super) use image_type::{MAX_IMAGE_BYTES, image_type};
pub(super) use output_capture::OutputCapture;
pub use output_folder::OutputFolder;
pub use schedule::{CallScope, plan_waves};
pub use shell::Shell;
pub use tool::{CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool};
pub(super) use tool::{parse_arguments, raw_json};
pub use toolkit::{EditStyle, PreparedTool, Toolkit, ToolkitSetup};
pub use workspace::Workspace;
