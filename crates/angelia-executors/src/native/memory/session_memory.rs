//! The notes that a session sees, and whether it may change them. Text from somebody else in a
//! conversation could make the model remember what that person wants, in every later session. So a
//! session writes notes only while nobody but the owner has spoken in it, unless the owner allows
//! it.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use angelia_core::{
    model::{MEMORY_CHANGED_NOTICE, MemoryUse, Notice, NoticeLevel},
    redact::Redactor,
};
use serde_json::{json, value::to_raw_value};

use super::{
    MemoryError, Note, NoteChange, NoteId, NoteName, NotePlace, NoteStore, NoteWriter,
    note::MAX_TOTAL_BYTES, notes_text::write_notes,
};
use crate::{native::notice_queue::NoticeQueue, truncation::first_line};

/// The notes of a session.
#[derive(Debug)]
pub struct SessionMemory {
    store: NoteStore,
    profile: NoteName,
    project: NotePlace,
    project_path: PathBuf,
    writer: NoteWriter,
    memory_use: MemoryUse,
    /// The window of the session's model, in tokens.
    window: u64,
    /// Somebody other than the owner has spoken in the session.
    heard_others: AtomicBool,
    redactor: Redactor,
    notices: NoticeQueue,
}

/// The facts about a session that its memory needs.
#[derive(Debug)]
pub struct MemorySetup<'a> {
    pub angelia_home: &'a Path,
    pub profile: &'a str,
    /// The root of the project as a real path.
    pub project: &'a Path,
    pub writer: NoteWriter,
    pub memory_use: MemoryUse,
    /// The window of the session's model, in tokens.
    pub window: u64,
    pub redactor: Redactor,
}

impl SessionMemory {
    /// Returns `None` if the session has no memory.
    pub fn new(setup: MemorySetup<'_>) -> Option<Self> {
        if setup.memory_use == MemoryUse::Off {
            return None;
        }
        Some(Self {
            store: NoteStore::new(setup.angelia_home),
            profile: NoteName::parse(setup.profile)?,
            project: NotePlace::of_project(setup.project),
            project_path: setup.project.to_owned(),
            writer: setup.writer,
            memory_use: setup.memory_use,
            window: setup.window,
            heard_others: AtomicBool::new(false),
            redactor: setup.redactor,
            notices: NoticeQueue::default(),
        })
    }

    /// Records whether a turn of the session is the owner's.
    pub fn hear_turn(&self, is_owners: bool) {
        if !is_owners {
            self.heard_others.store(true, Ordering::Relaxed);
        }
    }

    /// Returns all notes that the session sees, those for all projects first.
    pub fn notes(&self) -> Result<Vec<Note>, MemoryError> {
        let mut notes = self.store.notes_at(&self.profile, &NotePlace::everywhere())?;
        notes.extend(self.store.notes_at(&self.profile, &self.project)?);
        Ok(notes)
    }

    /// Returns the notes for the prompt.
    pub fn prompt_text(&self) -> Result<String, MemoryError> {
        Ok(write_notes(&self.notes()?, self.window))
    }

    /// Returns the project's note with this key, or else the one for all projects.
    pub fn read(&self, key: &NoteName) -> Result<Option<Note>, MemoryError> {
        for place in [self.project.clone(), NotePlace::everywhere()] {
            let id = self.id(place, key);
            if let Some(text) = self.store.read(&id)? {
                return Ok(Some(Note { id, text }));
            }
        }
        Ok(None)
    }

    /// Returns why the session may not change notes; `None` if it may.
    pub fn refusal(&self) -> Option<&'static str> {
        let is_refused =
            self.memory_use != MemoryUse::FromAny && self.heard_others.load(Ordering::Relaxed);
        is_refused.then_some(
            "not changed: somebody else than the owner has spoken in this session, and only the owner's \
             sessions are remembered (`memory: {from: any}` in the profile would allow it)",
        )
    }

    /// Writes a note, with secrets masked.
    pub fn save(
        &self,
        key: &NoteName,
        text: &str,
        is_for_all: bool,
    ) -> Result<NoteChange, MemoryError> {
        let place = if is_for_all { NotePlace::everywhere() } else { self.project.clone() };
        let id = self.id(place, key);
        let text = self.redactor.redact(text);
        let others = self.notes()?.into_iter().filter(|note| note.id != id);
        if others.map(|note| note.text.len()).sum::<usize>() + text.len() > MAX_TOTAL_BYTES {
            return Err(MemoryError::Full);
        }
        let change = self.store.change(&id, Some(&text), self.writer)?;
        if !id.place.is_everywhere() {
            self.store.set_project(&self.profile, &id.place, &self.project_path)?;
        }
        self.tell(&id, &change);
        Ok(change)
    }

    /// Forgets the project's note with this key, or else the one for all projects.
    pub fn forget(&self, key: &NoteName) -> Result<NoteChange, MemoryError> {
        let note = self.read(key)?.ok_or_else(|| MemoryError::NotFound(key.to_string()))?;
        let change = self.store.change(&note.id, None, self.writer)?;
        self.tell(&note.id, &change);
        Ok(change)
    }

    /// Takes the pending notices.
    pub(in crate::native) fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    fn id(&self, place: NotePlace, key: &NoteName) -> NoteId {
        NoteId { profile: self.profile.clone(), place, key: key.clone() }
    }

    fn tell(&self, id: &NoteId, change: &NoteChange) {
        let undo = change.short_id();
        let action = match (&change.before, &change.after) {
            (_, None) => "forgot",
            (None, Some(_)) => "remembered",
            (Some(_), Some(_)) => "changed",
        };
        let words = change.after.as_deref().and_then(first_line);
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        let text = format!("{action} `{id}`{words} (`angelia memory undo {undo}` takes it back)");
        let notice = Notice::new(NoticeLevel::Info, MEMORY_CHANGED_NOTICE, text);
        let detail = json!({"note": id.to_string(), "action": action, "undo": undo});
        self.notices.push(match to_raw_value(&detail) {
            Ok(detail) => notice.with_detail(detail.into()),
            Err(_) => notice,
        });
    }
}
