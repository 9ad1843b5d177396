//! The files of a release, below a prefix such as `/usr`. Every package contains some of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

pub(super) const PROGRAM: &str = "bin/angelia";
/// The path of the user unit below `/usr` and `~/.local`, where systemd finds it.
pub(super) const UNIT: &str = "share/systemd/user/angelia.service";
pub(super) const MAN_PAGES: &str = "share/man/man1/";
pub(super) const DOCUMENTS: &str = "share/doc/angelia/";
/// Placeholder in the unit for the program's folder.
pub(super) const UNIT_BINDIR: &str = "@BINDIR@";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackageFile {
    /// Relative to the prefix, with forward slashes.
    pub(super) path: String,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Program(Vec<u8>),
    Data(Vec<u8>),
    /// A symbolic link and its target.
    Link(String),
}

/// The files, sorted by path.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) files: Vec<PackageFile>,
}

impl PackageFile {
    pub(super) fn data(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), content: Content::Data(bytes.into()) }
    }

    /// Returns the same file below a folder.
    pub(super) fn below(&self, folder: &str) -> Self {
        Self { path: format!("{folder}/{}", self.path), content: self.content.clone() }
    }

    pub(super) fn mode(&self) -> u32 {
        match self.content {
            Content::Program(_) => 0o755,
            Content::Data(_) => 0o644,
            Content::Link(_) => 0o777,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Program(bytes) | Content::Data(bytes) => bytes,
            Content::Link(_) => &[],
        }
    }
}

impl Payload {
    /// Collects the program, the files that it wrote into `written`, and those of the project in
    /// `root`.
    pub(super) fn collect(program: &[u8], written: &Path, root: &Path) -> Result<Self> {
        let mut files = vec![PackageFile {
            path: PROGRAM.to_owned(),
            content: Content::Program(program.into()),
        }];
        read_folder(written, "", &mut files)?;
        for (source, path) in [
            ("packaging/angelia.service", UNIT.to_owned()),
            ("LICENSE-APACHE", format!("{DOCUMENTS}LICENSE-APACHE")),
            ("LICENSE-MIT", format!("{DOCUMENTS}LICENSE-MIT")),
            ("README.md", format!("{DOCUMENTS}README.md")),
        ] {
            let bytes =
                fs::read(root.join(source)).with_context(|| format!("cannot read {source}"))?;
            files.push(PackageFile::data(path, bytes));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// Returns the program and every file whose path begins with one of `starts`.
    pub(super) fn program_and(&self, starts: &[&str]) -> impl Iterator<Item = &PackageFile> {
        self.files.iter().filter(move |file| {
            file.path == PROGRAM || starts.iter().any(|start| file.path.starts_with(start))
        })
    }
}

/// Reads a folder with its files and links. `path` is its place below the prefix.
fn read_folder(folder: &Path, path: &str, files: &mut Vec<PackageFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = format!("{path}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_symlink() {
            let target: PathBuf = fs::read_link(entry.path())?;
            let content = Content::Link(target.to_string_lossy().into_owned());
            files.push(PackageFile { path, content });
        } else {
            files.push(PackageFile::data(path, fs::read(entry.path())?));
        }
    }
    Ok(())
}
