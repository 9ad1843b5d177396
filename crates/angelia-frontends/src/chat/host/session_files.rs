//! Files that people send, which are stored in the session's inbox folder, and files that the agent
//! writes for them into the session's output folder.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{Content, SessionId, TurnId},
    permission::CHAT_FILES,
    ports::{Channel, InboundFile},
};

/// The largest file that is downloaded.
const MAX_FILE_BYTES: u64 = 20 << 20;

/// Pictures larger than this are passed on only as files.
const MAX_IMAGE_BYTES: usize = 5 << 20;
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The limit on files that a turn may send.
const MAX_OUTPUT_FILES: usize = 20;

/// The files of one session.
#[derive(Clone, Debug)]
pub(super) struct ChatFiles {
    folder: PathBuf,
}

/// A file that goes to the chat.
#[derive(Clone, Debug)]
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
}

impl ChatFiles {
    pub(super) fn of(sessions_dir: &Path, session: SessionId) -> Self {
        Self { folder: sessions_dir.join(session.to_string()) }
    }

    /// Creates the folder for files that go to the chat, and returns its path.
    pub(super) async fn output_folder(&self) -> io::Result<PathBuf> {
        let output = self.folder.join(CHAT_FILES);
        tokio::fs::create_dir_all(&output).await?;
        Ok(output)
    }

    /// Downloads files. Returns what the agent gets: a line for each file, and the pictures.
    pub(super) async fn receive(
        &self,
        adapter: &Arc<dyn Channel>,
        files: &[InboundFile],
    ) -> (Vec<String>, Vec<Content>) {
        let (mut lines, mut pictures) = (Vec::new(), Vec::new());
        for file in files {
            match self.receive_one(adapter, file).await {
                Ok((path, bytes)) => {
                    lines.push(format!("[file: {}]", path.display()));
                    let media_type = find_image_type(&bytes).or(file.media_type.as_deref());
                    if let Some(media_type) = media_type.filter(|kind| IMAGE_TYPES.contains(kind))
                        && bytes.len() <= MAX_IMAGE_BYTES
                    {
                        let media_type = media_type.into();
                        pictures.push(Content::Image { media_type, data: bytes.into() });
                    }
                }
                Err(error) => lines.push(format!("[the file {} is missing: {error}]", file.name)),
            }
        }
        (lines, pictures)
    }

    async fn receive_one(
        &self,
        adapter: &Arc<dyn Channel>,
        file: &InboundFile,
    ) -> Result<(PathBuf, Vec<u8>), String> {
        let bytes =
            adapter.fetch_file(file, MAX_FILE_BYTES).await.map_err(|error| error.to_string())?;
        let stored = store_file(&self.folder.join("inbox"), &file.name, &bytes).await;
        Ok((stored.map_err(|error| error.to_string())?, bytes))
    }

    /// Takes the files that the agent wrote. A repeated call for the same turn returns the same files.
    pub(super) async fn take_output(&self, turn: TurnId) -> io::Result<Vec<OutputFile>> {
        let output = self.folder.join(CHAT_FILES);
        let taken = self.folder.join("sent").join(turn.to_string());
        for (path, name) in list_files(&output).await? {
            tokio::fs::create_dir_all(&taken).await?;
            tokio::fs::rename(&path, taken.join(&name)).await?;
        }
        let mut files = list_files(&taken).await?;
        files.truncate(MAX_OUTPUT_FILES);
        Ok(files.into_iter().map(|(path, name)| OutputFile { path, name }).collect())
    }
}

/// Returns the type of a picture by its first bytes, because not every platform states it.
fn find_image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Lists the regular files of a folder by name. A missing folder is empty.
async fn list_files(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut entries = match tokio::fs::read_dir(folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        // Symbolic links are skipped: they could point to any file of the owner.
        let is_file = entry.file_type().await?.is_file();
        if let (true, Ok(name)) = (is_file, entry.file_name().into_string()) {
            files.push((entry.path(), name));
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a file under an unused name.
async fn store_file(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    tokio::fs::create_dir_all(folder).await?;
    let name = plain_name(name);
    for number in 0..1000 {
        let path = folder.join(if number == 0 { name.clone() } else { format!("{number}-{name}") });
        let new = tokio::fs::OpenOptions::new().write(true).create_new(true).open(&path).await;
        match new {
            Ok(mut file) => {
                use tokio::io::AsyncWriteExt as _;
                file.write_all(bytes).await?;
                file.sync_all().await?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many files of this name"))
}

/// Returns a name that cannot leave its folder and that needs no quoting in a shell.
fn plain_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let plain: String = last.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect();
    let plain = plain.trim_start_matches(['.', '-']);
    if plain.is_empty() { "file".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_folder() {
        let table = [
            ("a b.txt", "a_b.txt"),
            ("../../.ssh/id", "id"),
            ("..", "file"),
            ("-rf", "rf"),
            ("C:\\x\\y;z.png", "y_z.png"),
            ("", "file"),
            ("日本.txt", "日本.txt"),
        ];
        for (given, plain) in table {
            assert_eq!(plain_name(given), plain, "{given}");
        }
    }

    #[tokio::test]
    async fn files_are_kept_apart_and_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::from_uuid(uuid::Uuid::from_u128(1));
        let turn = TurnId::from_uuid(uuid::Uuid::from_u128(2));
        let files = ChatFiles::of(folder.path(), session);
        let inbox = folder.path().join("inbox");
        let first = store_file(&inbox, "a.txt", b"1").await.unwrap();
        let second = store_file(&inbox, "a.txt", b"2").await.unwrap();
        assert_ne!(first, second);
        let output = files.output_folder().await.unwrap();
        std::fs::write(output.join("report.pdf"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", output.join("link")).unwrap();
        for _ in 0..2 {
            let taken = files.take_output(turn).await.unwrap();
            assert_eq!(taken.len(), 1);
            assert_eq!(taken[0].name, "report.pdf");
            assert!(taken[0].path.is_file());
        }
    }
}
