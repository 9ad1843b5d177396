//! Reads and changes the files of all notes. Files are replaced atomically, and the last hundred
//! changes of a profile are kept next to them.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use uuid::Uuid;

use super::{
    Note, NoteChange, NoteId, NoteName, NotePlace, NoteWriter,
    note::{MAX_NOTE_BYTES, MAX_TOTAL_BYTES},
};

/// The folder with a profile's changes.
const CHANGES: &str = ".changes";

/// Older changes cannot be undone.
const MAX_CHANGES: usize = 100;

/// The file in a project's folder that contains the project's path, for people.
const PROJECT_FILE: &str = ".project";

/// Why a note could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("there is no note `{0}`")]
    NotFound(String),
    #[error("the note is empty; forget it instead")]
    Empty,
    #[error("the note has {0} bytes, and a note has at most {MAX_NOTE_BYTES}; shorten it")]
    TooLong(usize),
    #[error(
        "memory is full: all notes together have at most {MAX_TOTAL_BYTES} bytes; forget or shorten some"
    )]
    Full,
    #[error("there is no change `{0}` that can be undone; only the last {MAX_CHANGES} can")]
    NoChange(String),
    #[error("the note `{0}` has changed since; edit it by hand")]
    ChangedSince(String),
    #[error("the memory in {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// All notes in Angelia's home.
#[derive(Clone, Debug)]
pub struct NoteStore {
    root: PathBuf,
}

impl NoteStore {
    pub fn new(angelia_home: &Path) -> Self {
        Self { root: Self::root_in(angelia_home) }
    }

    /// Returns the folder with all notes.
    pub fn root_in(angelia_home: &Path) -> PathBuf {
        angelia_home.join("memory")
    }

    pub fn path(&self, id: &NoteId) -> PathBuf {
        self.place_folder(&id.profile, &id.place).join(format!("{}.md", id.key))
    }

    fn place_folder(&self, profile: &NoteName, place: &NotePlace) -> PathBuf {
        self.root.join(profile.as_str()).join(place.as_str())
    }

    /// Returns all notes, sorted by their ids.
    pub fn all(&self) -> Result<Vec<Note>, MemoryError> {
        let mut notes = Vec::new();
        for profile in names_in(&self.root)? {
            for place in names_in(&self.root.join(profile.as_str()))? {
                notes.extend(self.notes_at(&profile, &NotePlace::named(place))?);
            }
        }
        Ok(notes)
    }

    /// Returns the notes of one place, sorted by their keys.
    pub fn notes_at(
        &self,
        profile: &NoteName,
        place: &NotePlace,
    ) -> Result<Vec<Note>, MemoryError> {
        let folder = self.place_folder(profile, place);
        let files = entries(&folder)?.into_iter();
        let keys = files.filter_map(|name| NoteName::parse(name.strip_suffix(".md")?));
        let mut keys: Vec<NoteName> = keys.collect();
        keys.sort();
        let ids = keys.into_iter().map(|key| NoteId {
            profile: profile.clone(),
            place: place.clone(),
            key,
        });
        let mut notes = Vec::new();
        for id in ids {
            if let Some(text) = self.read(&id)? {
                notes.push(Note { id, text });
            }
        }
        Ok(notes)
    }

    /// Returns the text of a note, if it exists.
    pub fn read(&self, id: &NoteId) -> Result<Option<String>, MemoryError> {
        let path = self.path(id);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MemoryError::Io { path, source }),
        }
    }

    /// Returns the path of the project of a place, if it is known.
    pub fn project_of(&self, profile: &NoteName, place: &NotePlace) -> Option<String> {
        let text = fs::read_to_string(self.place_folder(profile, place).join(PROJECT_FILE)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Records the path of a place's project, for people.
    pub(super) fn set_project(
        &self,
        profile: &NoteName,
        place: &NotePlace,
        project: &Path,
    ) -> Result<(), MemoryError> {
        let file = self.place_folder(profile, place).join(PROJECT_FILE);
        replace(&file, &format!("{}\n", project.display()))
    }

    /// Writes a note, or forgets it if `text` is `None`.
    pub fn change(
        &self,
        id: &NoteId,
        text: Option<&str>,
        by: NoteWriter,
    ) -> Result<NoteChange, MemoryError> {
        let before = self.read(id)?;
        let after = text.map(|text| text.trim().to_owned());
        match &after {
            None if before.is_none() => return Err(MemoryError::NotFound(id.to_string())),
            Some(text) if text.is_empty() => return Err(MemoryError::Empty),
            Some(text) if text.len() > MAX_NOTE_BYTES => {
                return Err(MemoryError::TooLong(text.len()));
            }
            _ => {}
        }
        let change = NoteChange::new(id, by, before, after);
        // Store the change first: a change that could not be undone is not made.
        self.keep(&id.profile, &change)?;
        self.put(id, change.after.as_deref())?;
        Ok(change)
    }

    /// Undoes a change. This is recorded as a change, too.
    pub fn undo(&self, change: &NoteChange, by: NoteWriter) -> Result<NoteChange, MemoryError> {
        let Some(id) = change.note() else {
            return Err(MemoryError::NoChange(change.short_id()));
        };
        if self.read(&id)? != change.after {
            return Err(MemoryError::ChangedSince(id.to_string()));
        }
        self.change(&id, change.before.as_deref(), by)
    }

    /// Returns the changes that can be undone, newest first.
    pub fn changes(&self) -> Result<Vec<NoteChange>, MemoryError> {
        let mut changes = Vec::new();
        for profile in names_in(&self.root)? {
            let folder = self.root.join(profile.as_str()).join(CHANGES);
            for name in entries(&folder)? {
                let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
                changes.extend(serde_json::from_str::<NoteChange>(&text));
            }
        }
        changes.sort_by_key(|change| std::cmp::Reverse(change.id));
        Ok(changes)
    }

    fn put(&self, id: &NoteId, text: Option<&str>) -> Result<(), MemoryError> {
        let path = self.path(id);
        match text {
            Some(text) => replace(&path, &format!("{text}\n")),
            None => fs::remove_file(&path).map_err(|source| MemoryError::Io { path, source }),
        }
    }

    fn keep(&self, profile: &NoteName, change: &NoteChange) -> Result<(), MemoryError> {
        let folder = self.root.join(profile.as_str()).join(CHANGES);
        let path = folder.join(format!("{}.json", change.id));
        let text = serde_json::to_string(change)
            .map_err(|error| MemoryError::Io { path: path.clone(), source: error.into() })?;
        replace(&path, &text)?;
        let mut names = entries(&folder)?;
        names.sort();
        for name in names.iter().rev().skip(MAX_CHANGES) {
            // A file that cannot be removed is left for the next change.
            let _left = fs::remove_file(folder.join(name));
        }
        Ok(())
    }
}

fn names_in(folder: &Path) -> Result<Vec<NoteName>, MemoryError> {
    let names = entries(folder)?;
    let mut names: Vec<_> = names.iter().filter_map(|name| NoteName::parse(name)).collect();
    names.sort();
    Ok(names)
}

/// Returns the names in a folder; none if it does not exist.
fn entries(folder: &Path) -> Result<Vec<String>, MemoryError> {
    let failed = |source| MemoryError::Io { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<_>>().map_err(failed)
}

/// Replaces a file atomically. Only the owner can access the file and its new folders.
fn replace(path: &Path, text: &str) -> Result<(), MemoryError> {
    let written = || {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let draft = path.with_file_name(format!(".draft-{}", Uuid::new_v4().simple()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
        let renamed = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&draft, path));
        if renamed.is_err() {
            let _left = fs::remove_file(&draft);
        }
        renamed
    };
    written().map_err(|source| MemoryError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn id(text: &str) -> NoteId {
        NoteId::parse(text).unwrap()
    }

    #[test]
    fn notes_are_files_that_a_person_can_edit() {
        let home = tempfile::tempdir().unwrap();
        let store = NoteStore::new(home.path());
        assert!(store.all().unwrap().is_empty());
        let style = id("default/everywhere/style");
        store.change(&style, Some("  Short sentences.\n"), NoteWriter::Agent).unwrap();
        let path = home.path().join("memory/default/everywhere/style.md");
        assert_eq!(fs::read_to_string(&path).unwrap(), "Short sentences.\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "Long ones.\n\n").unwrap();
        fs::write(path.with_file_name("other.md"), "by hand").unwrap();
        fs::write(path.with_file_name("not a note.txt"), "x").unwrap();
        let texts: Vec<_> = store.all().unwrap().into_iter().map(|note| note.text).collect();
        assert_eq!(texts, ["by hand", "Long ones."]);
    }

    #[test]
    fn every_change_can_be_undone_once() {
        let home = tempfile::tempdir().unwrap();
        let store = NoteStore::new(home.path());
        let note = id("default/everywhere/style");
        let first = store.change(&note, Some("one"), NoteWriter::Agent).unwrap();
        let second = store.change(&note, Some("two"), NoteWriter::Review).unwrap();
        assert!(matches!(store.undo(&first, NoteWriter::Owner), Err(MemoryError::ChangedSince(_))));
        store.undo(&second, NoteWriter::Owner).unwrap();
        assert_eq!(store.read(&note).unwrap().as_deref(), Some("one"));
        let forgotten = store.change(&note, None, NoteWriter::Owner).unwrap();
        assert_eq!(store.read(&note).unwrap(), None);
        assert!(matches!(
            store.change(&note, None, NoteWriter::Owner),
            Err(MemoryError::NotFound(_))
        ));
        store.undo(&forgotten, NoteWriter::Owner).unwrap();
        store.undo(&first, NoteWriter::Owner).unwrap();
        assert_eq!(store.read(&note).unwrap(), None, "there was no note before the first change");
        let by: Vec<_> = store.changes().unwrap().iter().map(|one| one.by().to_owned()).collect();
        assert_eq!(by, ["owner", "owner", "owner", "owner", "review", "agent"]);
    }

    #[test]
    fn notes_are_small_and_only_the_last_changes_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let store = NoteStore::new(home.path());
        let note = id("default/everywhere/n");
        let long = "x".repeat(MAX_NOTE_BYTES + 1);
        let write = |text: &str| store.change(&note, Some(text), NoteWriter::Agent);
        assert!(matches!(write(&long), Err(MemoryError::TooLong(_))));
        assert!(matches!(write(" \n"), Err(MemoryError::Empty)));
        for number in 0..MAX_CHANGES + 5 {
            write(&number.to_string()).unwrap();
        }
        let changes = store.changes().unwrap();
        assert_eq!(changes.len(), MAX_CHANGES);
        assert_eq!(changes[0].after.as_deref(), Some("104"));
    }
}
