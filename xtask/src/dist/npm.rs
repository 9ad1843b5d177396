//! The package for npm (`.tgz`): the program itself is its `bin`, and installing it neither runs
//! nor fetches anything. `private` prevents it from being published by mistake.

use anyhow::Result;
use serde_json::json;

use super::{
    Release,
    archive::tar_gz,
    payload::{DOCUMENTS, MAN_PAGES, PROGRAM, PackageFile, Payload},
    target::Target,
};

fn name(target: &Target) -> String {
    format!("angelia-linux-{}", target.node)
}

pub(super) fn file_name(release: &Release, target: &Target) -> String {
    format!("{}-{}.tgz", name(target), release.version)
}

pub(super) fn pack(release: &Release, target: &Target, payload: &Payload) -> Result<Vec<u8>> {
    let mut files: Vec<PackageFile> =
        payload.program_and(&[MAN_PAGES, DOCUMENTS]).map(at_the_top).collect();
    let pages: Vec<&str> = files
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| path.starts_with(MAN_PAGES))
        .collect();
    let manifest = json!({
        "name": name(target),
        "version": release.version,
        "description": release.description,
        "license": "MIT OR Apache-2.0",
        "private": true,
        "os": ["linux"],
        "cpu": [target.node],
        "bin": { "angelia": PROGRAM },
        "man": pages,
    });
    let manifest = format!("{manifest:#}\n");
    files.push(PackageFile::data("package.json", manifest));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let files: Vec<PackageFile> = files.iter().map(|file| file.below("package")).collect();
    tar_gz(&files, release.time)
}

/// Moves documents to the top of the package, where npm expects them.
fn at_the_top(file: &PackageFile) -> PackageFile {
    let path = file.path.strip_prefix(DOCUMENTS).unwrap_or(&file.path);
    PackageFile { path: path.to_owned(), content: file.content.clone() }
}
