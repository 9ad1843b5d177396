//! The archive for any Linux (`.tar.gz`), and the compressed tar that other packages contain.

use std::{collections::BTreeSet, io::Write as _};

use anyhow::Result;
use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::{
    Release,
    payload::{Content, PackageFile, Payload},
    target::Target,
};

pub(super) fn file_name(release: &Release, target: &Target) -> String {
    format!("{}.tar.gz", top_folder(release, target))
}

fn top_folder(release: &Release, target: &Target) -> String {
    format!("angelia-{}-{}", release.version, target.triple)
}

pub(super) fn pack(release: &Release, target: &Target, payload: &Payload) -> Result<Vec<u8>> {
    let top = top_folder(release, target);
    let files: Vec<PackageFile> = payload.files.iter().map(|file| file.below(&top)).collect();
    tar_gz(&files, release.time)
}

/// Packs the files and the folders that contain them, all owned by root.
pub(super) fn tar_gz(files: &[PackageFile], time: u64) -> Result<Vec<u8>> {
    let mut tar = Builder::new(gzip());
    for folder in folders(files) {
        let mut header = header(EntryType::Directory, 0o755, 0, time);
        tar.append_data(&mut header, format!("{folder}/"), &[][..])?;
    }
    for file in files {
        let path = &file.path;
        if let Content::Link(target) = &file.content {
            let mut header = header(EntryType::Symlink, file.mode(), 0, time);
            tar.append_link(&mut header, path, target)?;
        } else {
            let bytes = file.bytes();
            let mut header = header(EntryType::Regular, file.mode(), bytes.len() as u64, time);
            tar.append_data(&mut header, path, bytes)?;
        }
    }
    Ok(tar.into_inner()?.finish()?)
}

/// Compresses a file without a timestamp, so that the same content yields the same bytes.
pub(super) fn gzip_bytes(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = gzip();
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn gzip() -> GzEncoder<Vec<u8>> {
    GzBuilder::new().mtime(0).write(Vec::new(), Compression::best())
}

fn header(kind: EntryType, mode: u32, size: u64, time: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(time);
    header.set_size(size);
    header
}

/// Returns the folders that contain the files, parents first.
fn folders(files: &[PackageFile]) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    for file in files {
        let mut path = file.path.as_str();
        while let Some((folder, _)) = path.rsplit_once('/') {
            folders.insert(folder.to_owned());
            path = folder;
        }
    }
    folders
}
