//! The names of notes, and their limits.

use std::{fmt, path::Path, sync::Arc};

use sha2::{Digest as _, Sha256};

/// Longer notes are refused, because every request carries them.
pub const MAX_NOTE_BYTES: usize = 4 * 1024;

/// The maximum size of all notes that a session sees.
pub const MAX_TOTAL_BYTES: usize = 32 * 1024;

/// The folder of the notes for all projects.
const EVERYWHERE: &str = "everywhere";

const MAX_NAME_BYTES: usize = 64;

/// The name of a note, a profile or a project. It is a valid file name on every system, and never a
/// path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteName(Arc<str>);

impl NoteName {
    /// Parses a name. It consists of letters, digits, `-`, `_` and `.`, and does not start with `.`
    /// or `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let bytes = text.as_bytes();
        let is_name =
            bytes.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                && bytes.len() <= MAX_NAME_BYTES
                && bytes.iter().all(is_inner);
        is_name.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sessions that see a note. This is also the name of its folder below the profile's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NotePlace(NoteName);

impl NotePlace {
    /// Returns the place that is seen in all projects.
    pub fn everywhere() -> Self {
        Self(NoteName(EVERYWHERE.into()))
    }

    /// Returns the place that is seen in the project at this real path. Its name begins with the
    /// name of the project's folder, so that people recognise it.
    pub fn of_project(root: &Path) -> Self {
        let path = root.as_os_str().as_encoded_bytes();
        let hash = format!("{:x}", Sha256::digest(path));
        let folder = root.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let words: String =
            folder.chars().map(|char| if is_plain(char) { char } else { '_' }).collect();
        let words = words.trim_start_matches(['.', '-']);
        let words = &words[..words.len().min(MAX_NAME_BYTES - 9)];
        let words = if words.is_empty() { "root" } else { words };
        Self(NoteName(format!("{words}-{}", &hash[..8]).into()))
    }

    pub fn named(name: NoteName) -> Self {
        Self(name)
    }

    pub fn is_everywhere(&self) -> bool {
        self.as_str() == EVERYWHERE
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for NotePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The full name of a note: `PROFILE/PLACE/KEY`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteId {
    pub profile: NoteName,
    pub place: NotePlace,
    pub key: NoteName,
}

impl NoteId {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(NoteName::parse);
        let (profile, place, key) = (parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(Self { profile, place: NotePlace(place), key })
    }
}

impl fmt::Display for NoteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.profile, self.place, self.key)
    }
}

/// A note with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub id: NoteId,
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_name_and_nothing_else() {
        for name in ["style", "build-2", "_x", "a.b", &"k".repeat(64)] {
            assert!(NoteName::parse(name).is_some(), "{name}");
        }
        for text in ["", ".", "..", ".hidden", "-x", "a/b", "a b", "ä", "a\0", &"k".repeat(65)] {
            assert!(NoteName::parse(text).is_none(), "{text}");
        }
        let id = NoteId::parse("default/everywhere/style").unwrap();
        assert!(id.place.is_everywhere());
        assert_eq!(id.to_string(), "default/everywhere/style");
        for text in ["style", "a/b", "a/b/c/d", "a/../c", "a//c"] {
            assert_eq!(NoteId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_project_has_a_folder_of_its_own() {
        let names =
            ["/src/app", "/srv/app", "/", "/x/.config", "/x/ä ö", &format!("/{}", "n".repeat(200))];
        let places: Vec<NotePlace> =
            names.iter().map(|path| NotePlace::of_project(Path::new(path))).collect();
        for (number, place) in places.iter().enumerate() {
            assert!(NoteName::parse(place.as_str()).is_some(), "{place}");
            assert!(!places[..number].contains(place), "{place}");
        }
        assert!(places[0].as_str().starts_with("app-"));
    }
}
