//! The package for Debian and Ubuntu (`.deb`): an `ar` archive with the files and a description.

use anyhow::Result;

use super::{
    Release,
    archive::{gzip_bytes, tar_gz},
    payload::{Content, DOCUMENTS, MAN_PAGES, PackageFile, Payload, UNIT, UNIT_BINDIR},
    target::Target,
};

/// Debian's folder for user units from packages.
const DEBIAN_UNIT: &str = "lib/systemd/user/angelia.service";

pub(super) fn file_name(release: &Release, target: &Target) -> String {
    format!("angelia_{}_{}.deb", release.version, target.debian)
}

pub(super) fn pack(release: &Release, target: &Target, payload: &Payload) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for file in &payload.files {
        files.push(as_debian_wants(file)?.below("usr"));
    }
    files.push(PackageFile::data(format!("usr/{DOCUMENTS}copyright"), COPYRIGHT));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let control = control(release, target, &files);
    let members: [(&[u8], Vec<u8>); 3] = [
        (b"debian-binary", b"2.0\n".to_vec()),
        (b"control.tar.gz", tar_gz(&[PackageFile::data("control", control)], release.time)?),
        (b"data.tar.gz", tar_gz(&files, release.time)?),
    ];
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = ar::Header::new(name.to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(release.time);
        archive.append(&header, bytes.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

/// Compresses a man page, moves the unit, and sets the folder of its program.
fn as_debian_wants(file: &PackageFile) -> Result<PackageFile> {
    let bytes = file.bytes();
    if file.path.starts_with(MAN_PAGES) {
        return Ok(PackageFile::data(format!("{}.gz", file.path), gzip_bytes(bytes)?));
    }
    if file.path == UNIT {
        let unit = String::from_utf8_lossy(bytes).replace(UNIT_BINDIR, "/usr/bin");
        return Ok(PackageFile::data(DEBIAN_UNIT, unit));
    }
    Ok(file.clone())
}

fn control(release: &Release, target: &Target, files: &[PackageFile]) -> String {
    let bytes: usize = files
        .iter()
        .filter(|file| !matches!(file.content, Content::Link(_)))
        .map(|file| file.bytes().len())
        .sum();
    format!(
        "Package: angelia\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The Angelia project <angelia@example.invalid>\n\
         Installed-Size: {kilobytes}\n\
         Section: devel\n\
         Priority: optional\n\
         Description: {description}\n \
         Drives the vendors' own programs (Claude Code, Codex, agents that speak ACP),\n \
         keeps them warm and under control, records every turn, and serves terminals,\n \
         scripts, editors and model API clients.\n",
        version = release.version,
        architecture = target.debian,
        kilobytes = bytes.div_ceil(1024),
        description = release.description,
    )
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Angelia

Files: *
Copyright: the Angelia contributors
License: MIT or Apache-2.0
 The licence texts are in LICENSE-MIT and LICENSE-APACHE next to this file.
";
