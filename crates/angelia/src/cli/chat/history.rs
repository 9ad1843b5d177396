//! The lines typed in chats, stored in a file that only the owner can read. Each entry is one line,
//! with line breaks and backslashes escaped.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::PathBuf,
};

/// Older entries are dropped when a chat starts.
const MAX_ENTRIES: usize = 1000;

#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
    /// Oldest first.
    pub(super) entries: Vec<String>,
}

impl History {
    /// Reads the file. If it cannot be read, the history is empty: the chat works without it.
    pub(super) fn open(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut entries: Vec<String> = text.lines().map(unescape).collect();
        let history_is_long = entries.len() > MAX_ENTRIES;
        entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
        let history = Self { path, entries };
        if history_is_long && let Err(error) = history.rewrite() {
            tracing::debug!(%error, "the chat's history was not shortened");
        }
        history
    }

    /// Adds an entry. As in a shell, an entry that begins with a space is not kept.
    pub(super) fn add(&mut self, entry: &str) {
        let is_last = self.entries.last().is_some_and(|last| last == entry);
        if entry.trim().is_empty() || entry.starts_with(' ') || is_last {
            return;
        }
        self.entries.push(entry.to_owned());
        let added = self.open_file().and_then(|mut file| writeln!(file, "{}", escape(entry)));
        if let Err(error) = added {
            tracing::debug!(%error, "the chat's history was not written");
        }
    }

    fn open_file(&self) -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    fn rewrite(&self) -> io::Result<()> {
        let text: String = self.entries.iter().map(|entry| escape(entry) + "\n").collect();
        let file = self.open_file()?;
        file.set_len(0)?;
        (&file).write_all(text.as_bytes())
    }
}

fn escape(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescape(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_typed_and_only_to_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat_history");
        let mut history = History::open(path.clone());
        let typed = ["one", "two\nlines \\n \\", "日本語"];
        for entry in typed {
            history.add(entry);
            history.add(entry);
        }
        history.add(" a secret");
        history.add(" ");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(History::open(path.clone()).entries, typed);
        let many: String = (0..MAX_ENTRIES + 5).map(|number| number.to_string() + "\n").collect();
        fs::write(&path, many).unwrap();
        let history = History::open(path.clone());
        assert_eq!((history.entries.len(), history.entries[0].as_str()), (MAX_ENTRIES, "5"));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MAX_ENTRIES);
    }
}
