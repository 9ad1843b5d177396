//! The memory of a profile's agents, which lasts from session to session: small Markdown files that
//! the owner can read and edit (`docs/design/0037-memory-and-skills.md`).
//!
//! ```text
//!  $ANGELIA_HOME/memory/PROFILE/everywhere/KEY.md          in every project
//!                              /PROJECT-HASH/KEY.md        in one project; `.project` has its path
//!                              /.changes/ID.json           the last changes, so that each can be undone
//! ```
//!
//! - [`note`]: the names and limits of notes. Pure.
//! - [`note_store`]: reads and changes the files.
//! - [`change`]: a change that can be undone.
//! - [`session_memory`]: the notes that a session sees and may change.
//! - [`notes_text`]: the notes in the prompt. Pure.

pub mod change;
pub mod note;
pub mod note_store;
pub mod notes_text;
pub mod session_memory;

pub use change::{NoteChange, NoteWriter};
pub use note::{Note, NoteId, NoteName, NotePlace};
pub use note_store::{MemoryError, NoteStore};
pub use session_memory::SessionMemory;
