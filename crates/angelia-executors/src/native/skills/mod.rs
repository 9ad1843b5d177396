//! Skills: folders with a `SKILL.md` that says how to do one kind of task. The prompt lists their
//! names and descriptions; the model loads the text of a skill with the `skill` tool when it needs
//! it (`docs/design/0037-memory-and-skills.md`).
//!
//! - [`front_matter`]: the head of a `SKILL.md`. Pure.
//! - [`catalog`]: finds the skills of a session.
//! - [`listing`]: the list in the prompt. Pure.

pub mod catalog;
pub mod front_matter;
pub mod listing;

pub use catalog::{Skill, SkillPlaces, find_skills};
pub use listing::list_skills;
