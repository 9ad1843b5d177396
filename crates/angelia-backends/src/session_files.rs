//! The folders of sessions on disk: `$ANGELIA_HOME/sessions/ID`.

use std::{
    io,
    path::{Path, PathBuf},
};

use angelia_core::{
    model::SessionId,
    ports::{BoxFuture, SessionFiles},
};

#[derive(Debug)]
pub struct SessionFolders {
    folder: PathBuf,
}

impl SessionFolders {
    /// `folder` has a folder for each session that has files, called by the session's id.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }
}

impl SessionFiles for SessionFolders {
    fn remove(&self, session: SessionId) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            match tokio::fs::remove_dir_all(self.folder.join(session.to_string())).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn the_folder_of_one_session_goes() {
        let root = tempfile::tempdir().unwrap();
        let [gone, kept] = [1, 2].map(|id| SessionId::from_uuid(Uuid::from_u128(id)));
        for session in [gone, kept] {
            let output = root.path().join(session.to_string()).join("output");
            fs::create_dir_all(&output).unwrap();
            fs::write(output.join("1.txt"), "what a tool said").unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("mine.txt"), "not the session's").unwrap();
        let link = root.path().join(gone.to_string()).join("link");
        std::os::unix::fs::symlink(elsewhere.path(), link).unwrap();

        let files = SessionFolders::new(root.path());
        files.remove(gone).await.unwrap();
        assert!(!root.path().join(gone.to_string()).exists());
        assert!(root.path().join(kept.to_string()).join("output/1.txt").exists());
        assert!(elsewhere.path().join("mine.txt").exists(), "a link leads out of the folder");
        files.remove(gone).await.unwrap();
    }
}
