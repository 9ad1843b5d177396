//! Files that are added to a prompt: text as a marked block, or an image. A file's content decides
//! its kind, not its name.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use angelia_core::model::Content;

use crate::cli::error::CommandError;

/// The models' limit: vendors refuse larger images.
const MAX_IMAGE_BYTES: u64 = 5 * 1024 * 1024;
/// A longer text is better read piece by piece by the agent itself.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;
/// More files in one turn are probably a mistake.
const MAX_FILES: usize = 100;

/// Returns the prompt with its files: one text, followed by the images.
pub(crate) fn with_files(prompt: String, files: &[PathBuf]) -> Result<Vec<Content>, CommandError> {
    if files.len() > MAX_FILES {
        return Err(CommandError::usage(format!("at most {MAX_FILES} files can be added"))
            .with_hint("name a folder in the prompt, and the agent reads it"));
    }
    let mut text = prompt;
    let mut images = Vec::new();
    for path in files {
        match read(path)? {
            AttachedFile::Text(content) => {
                let name = path.display().to_string().replace('"', "'");
                text = add_block(&text, "file", &format!(" path=\"{name}\""), &content);
            }
            AttachedFile::Image { media_type, data } => {
                images.push(Content::Image { media_type: media_type.into(), data: data.into() });
            }
        }
    }
    Ok([vec![Content::text(text)], images].concat())
}

/// Adds a text to a prompt, in a block whose end tag does not occur in the text.
pub(crate) fn add_block(prompt: &str, tag: &str, attributes: &str, content: &str) -> String {
    let mut tag = tag.to_owned();
    while content.contains(&format!("</{tag}>")) {
        tag.push('_');
    }
    let content = content.trim_end_matches(['\r', '\n']);
    format!("{prompt}\n\n<{tag}{attributes}>\n{content}\n</{tag}>")
}

#[derive(Debug, PartialEq, Eq)]
enum AttachedFile {
    Text(String),
    Image { media_type: &'static str, data: Vec<u8> },
}

fn read(path: &Path) -> Result<AttachedFile, CommandError> {
    let shown = path.display();
    let cannot = |error: std::io::Error| {
        CommandError::usage(format!("cannot read the file {shown}: {error}"))
    };
    let metadata = fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        // Reading a pipe would block.
        return Err(CommandError::usage(format!("{shown} is not a regular file"))
            .with_hint("name a folder in the prompt, and the agent reads it"));
    }
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(cannot)?.take(MAX_IMAGE_BYTES + 1);
    file.read_to_end(&mut bytes).map_err(cannot)?;
    let length = bytes.len() as u64;
    let media_type = image_type(&bytes);
    let limit = if media_type.is_some() { MAX_IMAGE_BYTES } else { MAX_TEXT_BYTES };
    if length > limit {
        let what = if media_type.is_some() { "picture" } else { "text" };
        let message = format!("the {what} {shown} is larger than {} MiB", limit / (1024 * 1024));
        return Err(CommandError::usage(message)
            .with_hint("name the file in the prompt, and the agent reads it"));
    }
    if let Some(media_type) = media_type {
        return Ok(AttachedFile::Image { media_type, data: bytes });
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(AttachedFile::Text(text)),
        _ => Err(CommandError::usage(format!(
            "{shown} is neither UTF-8 text nor a PNG, JPEG, GIF or WebP picture"
        ))
        .with_hint("name the file in the prompt, and the agent reads it")),
    }
}

/// Returns whether a file is an image.
pub(crate) fn is_image(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut start));
    read.is_ok() && image_type(&start).is_some()
}

/// Returns the media type of an image.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = || bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if is_webp() {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::error::Exit;

    #[test]
    fn the_content_says_what_a_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let text = file("picture.png", "zwölf\n</file>\n".as_bytes());
        let image = file("text.txt", b"\x89PNG\r\n\x1a\n\xff\0");
        let parts = with_files("look".to_owned(), &[image, text.clone()]).unwrap();
        let expected =
            format!("look\n\n<file_ path=\"{}\">\nzwölf\n</file>\n</file_>", text.display());
        let image = Content::Image {
            media_type: "image/png".into(),
            data: (*b"\x89PNG\r\n\x1a\n\xff\0").into(),
        };
        assert_eq!(parts, [Content::text(expected), image]);
        for (bytes, media_type) in [
            (&b"\xff\xd8\xff\xe0"[..], Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
        ] {
            assert_eq!(image_type(bytes), media_type);
        }
    }

    #[test]
    fn what_cannot_be_added_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("binary");
        fs::write(&binary, b"a\0b").unwrap();
        let long = folder.path().join("long");
        fs::write(&long, vec![b'a'; 1024 * 1024 + 1]).unwrap();
        let missing = folder.path().join("missing");
        for (path, why) in [
            (binary, "neither UTF-8 text nor"),
            (long, "is larger than 1 MiB"),
            (missing, "cannot read the file"),
            (folder.path().to_owned(), "is not a regular file"),
        ] {
            let error = with_files("look".to_owned(), std::slice::from_ref(&path)).unwrap_err();
            assert_eq!(error.exit, Exit::Usage);
            assert!(error.message.contains(why), "{}", error.message);
            assert!(error.message.contains(&path.display().to_string()), "{}", error.message);
        }
    }
}
