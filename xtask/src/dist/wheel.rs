//! The package for pip, pipx and uv (a wheel): the program goes next to Python's other programs,
//! man pages and completions below the environment's `share`. The classifier prevents it from being
//! published by mistake.

use std::io::{Cursor, Write as _};

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{
    Release,
    payload::{Content, DOCUMENTS, PROGRAM, PackageFile, Payload},
    target::Target,
};

/// A wheel cannot contain links, so it omits Hermes' names; `setup hermes` works without them.
const SHARED: [&str; 5] =
    ["share/man/", "share/bash-completion/", "share/zsh/", "share/fish/", LICENCES];

const LICENCES: &str = "share/doc/angelia/LICENSE";

pub(super) fn file_name(release: &Release, target: &Target) -> String {
    format!("angelia-{}-py3-none-{}.whl", release.version, platforms(target).join("."))
}

fn platforms(target: &Target) -> Vec<String> {
    let platforms = target.wheel_platforms.iter();
    platforms.map(|libc| format!("{libc}_{}", target.machine)).collect()
}

pub(super) fn pack(release: &Release, target: &Target, payload: &Payload) -> Result<Vec<u8>> {
    let stem = format!("angelia-{}", release.version);
    let info = format!("{stem}.dist-info");
    let mut files: Vec<PackageFile> =
        payload.program_and(&SHARED).map(|file| place(file, &stem)).collect();
    files.push(PackageFile::data(format!("{info}/METADATA"), metadata(release)));
    files.push(PackageFile::data(format!("{info}/WHEEL"), description(target)));
    let record_path = format!("{info}/RECORD");
    let record = record(&files, &record_path);
    files.push(PackageFile::data(record_path, record));

    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for file in &files {
        // Without a time, an entry is from 1980, the first year of zip files.
        let options = SimpleFileOptions::default().unix_permissions(file.mode());
        zip.start_file(file.path.as_str(), options)?;
        zip.write_all(file.bytes())?;
    }
    Ok(zip.finish()?.into_inner())
}

/// Returns the file at the path that an installer expects: licences in `dist-info`, the rest in
/// `data`.
fn place(file: &PackageFile, stem: &str) -> PackageFile {
    let path = if file.path == PROGRAM {
        format!("{stem}.data/scripts/angelia")
    } else if let Some(document) = file.path.strip_prefix(DOCUMENTS) {
        format!("{stem}.dist-info/licenses/{document}")
    } else {
        format!("{stem}.data/data/{}", file.path)
    };
    PackageFile { path, content: file.content.clone() }
}

fn metadata(release: &Release) -> String {
    format!(
        "Metadata-Version: 2.4\n\
         Name: angelia\n\
         Version: {}\n\
         Summary: {}\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-APACHE\n\
         License-File: LICENSE-MIT\n\
         Classifier: Private :: Do Not Upload\n",
        release.version, release.description
    )
}

fn description(target: &Target) -> String {
    let mut text =
        "Wheel-Version: 1.0\nGenerator: angelia xtask\nRoot-Is-Purelib: false\n".to_owned();
    for platform in platforms(target) {
        text.push_str("Tag: py3-none-");
        text.push_str(&platform);
        text.push('\n');
    }
    text
}

/// Lists every file with its hash. The list itself has none.
fn record(files: &[PackageFile], own_path: &str) -> String {
    let mut lines = String::new();
    for file in files.iter().filter(|file| !matches!(file.content, Content::Link(_))) {
        let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(file.bytes()));
        let line = [&file.path, ",sha256=", &hash, ",", &file.bytes().len().to_string(), "\n"];
        lines.push_str(&line.concat());
    }
    lines.push_str(own_path);
    lines.push_str(",,\n");
    lines
}
