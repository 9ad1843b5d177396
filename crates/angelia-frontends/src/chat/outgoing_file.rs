//! Reads a file that is to be sent to a chat, unless it is too large for the platform.

use std::io;

use angelia_core::ports::{OutgoingFile, SendError, SendErrorKind};

const MB: u64 = 1 << 20;

/// Returns the content of a file of at most `max_bytes`. `server` names the platform in the error.
pub(super) async fn read_outgoing_file(
    file: &OutgoingFile,
    server: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, SendError> {
    let refused = |message: String| SendError::new(SendErrorKind::Refused, message);
    let unreadable = |error: io::Error| refused(format!("cannot read {}: {error}", file.name));
    let size = tokio::fs::metadata(&file.path).await.map_err(unreadable)?.len();
    if size > max_bytes {
        let (name, max) = (&file.name, max_bytes / MB);
        return Err(refused(format!(
            "{name} has more than {max} MB, which {server} does not accept"
        )));
    }
    tokio::fs::read(&file.path).await.map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_up_to_the_limit_of_its_platform() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        let file = OutgoingFile { id: "f".into(), path: path.clone(), name: "a.bin".into() };
        let missing = read_outgoing_file(&file, "Here", MB).await.unwrap_err();
        assert!(missing.message.starts_with("cannot read a.bin: "), "{missing}");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        assert_eq!(read_outgoing_file(&file, "Here", MB).await.unwrap().len(), 1 << 20);
        std::fs::write(&path, vec![7; (1 << 20) + 1]).unwrap();
        let big = read_outgoing_file(&file, "Here", MB).await.unwrap_err();
        assert_eq!(big.kind, SendErrorKind::Refused);
        assert_eq!(big.message, "a.bin has more than 1 MB, which Here does not accept");
    }
}
