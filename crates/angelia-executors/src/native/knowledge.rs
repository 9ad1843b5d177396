//! What a session knows besides its conversation: skills, and the notes of its memory. Only a
//! session with tools of our own has either, so neither is read in model mode.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    ports::{OpenRequest, RecordedTurn},
    redact::Redactor,
};

use super::{
    agent::is_selected,
    instructions::project_folders,
    memory::{NoteWriter, SessionMemory, session_memory::MemorySetup},
    prompt_notes::PromptNotes,
    skills::{Skill, SkillPlaces, find_skills, list_skills},
    tools::{
        Toolkit,
        memory::{self as memory_tool, MemoryTool},
        skill::{self, SkillTool},
    },
};

/// The places where a session looks for its knowledge.
#[derive(Debug)]
pub(super) struct KnowledgePlaces {
    pub(super) angelia_home: PathBuf,
    pub(super) user_home: PathBuf,
    /// The session's directory as a real path.
    pub(super) cwd: PathBuf,
    /// The model's window, in tokens.
    pub(super) window: u64,
    pub(super) redactor: Redactor,
}

impl KnowledgePlaces {
    fn project(&self) -> &Path {
        project_folders(&self.cwd).first().copied().unwrap_or(&self.cwd)
    }
}

#[derive(Debug, Default)]
pub(super) struct Knowledge {
    pub(super) notes: PromptNotes,
    /// The notes are in the record already.
    pub(super) is_recorded: bool,
    pub(super) memory: Option<Arc<SessionMemory>>,
    skills: Vec<Skill>,
}

impl Knowledge {
    /// `turns` are the session's recorded turns.
    pub(super) fn gather(
        opening: &OpenRequest<'_>,
        places: &KnowledgePlaces,
        turns: &[RecordedTurn],
    ) -> Self {
        let spec = opening.spec;
        let memory = MemorySetup {
            angelia_home: &places.angelia_home,
            profile: &spec.profile,
            project: places.project(),
            writer: match spec.native.reviews {
                Some(_) => NoteWriter::Review,
                None => NoteWriter::Agent,
            },
            memory_use: spec.native.memory,
            window: places.window,
            redactor: places.redactor.clone(),
        };
        let memory = SessionMemory::new(memory).filter(|_| is_selected(spec, memory_tool::NAME));
        let skills = if is_selected(spec, skill::NAME) {
            find_skills(&SkillPlaces {
                angelia_home: &places.angelia_home,
                user_home: &places.user_home,
                project: spec.trust.then_some(&*places.cwd),
            })
        } else {
            Vec::new()
        };
        if let Some(memory) = &memory {
            memory.hear_turn(opening.is_owners);
            for turn in turns {
                memory.hear_turn(turn.is_owners);
            }
        }
        let recorded = PromptNotes::recorded_in(turns);
        let is_recorded = recorded.is_some();
        let notes = recorded.unwrap_or_else(|| PromptNotes {
            skills: list_skills(&skills, places.window).into(),
            memory: memory.as_ref().and_then(read_notes).unwrap_or_default(),
        });
        Self { notes, is_recorded, memory: memory.map(Arc::new), skills }
    }

    /// Adds the tools for skills and memory. A tool is present whenever the prompt mentions it,
    /// because both are part of every request.
    pub(super) fn add_tools(&mut self, toolkit: &mut Toolkit) {
        if !self.notes.skills.is_empty() {
            toolkit.add(Arc::new(SkillTool::new(std::mem::take(&mut self.skills))));
        }
        if let Some(memory) = &self.memory {
            toolkit.add(Arc::new(MemoryTool::new(Arc::clone(memory))));
        }
    }
}

/// Returns the notes for the prompt; `None` if they cannot be read. The error is only logged,
/// because a session also works without notes.
pub(super) fn read_notes(memory: &SessionMemory) -> Option<Arc<str>> {
    let text = memory.prompt_text();
    let text = text.inspect_err(|error| tracing::warn!(%error, "the memory could not be read"));
    text.ok().map(Into::into)
}
