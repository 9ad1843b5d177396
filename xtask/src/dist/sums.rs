//! The checksums of a release, and their minisign signature.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use crate::program::{command, succeed};

pub(super) const SUMS: &str = "SHA256SUMS";
/// The line in `install.sh` that receives the public key.
const KEY_PLACE: &str = "public_key=''";

/// Returns the files in a folder, sorted by name.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Writes the checksum of every file in the folder in the format of `sha256sum --check`.
pub(super) fn write(folder: &Path) -> Result<()> {
    let mut lines = String::new();
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let sum = hex::encode(Sha256::digest(fs::read(&path)?));
        lines.push_str(&format!("{sum}  {name}\n"));
    }
    Ok(fs::write(folder.join(SUMS), lines)?)
}

/// Returns `install.sh` with the public key in its place.
pub(super) fn with_public_key(script: &str, key: &str) -> Result<String> {
    ensure!(script.matches(KEY_PLACE).count() == 1, "install.sh has no place for the key");
    Ok(script.replace(KEY_PLACE, &format!("public_key='{key}'")))
}

/// A minisign secret key, and the file with its public half.
pub(super) struct SigningKey {
    secret: PathBuf,
    public: PathBuf,
}

impl SigningKey {
    /// Returns the key that `ANGELIA_DIST_KEY` names, or else one that is created once on this
    /// machine.
    pub(super) fn find() -> Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "xtask has no other settings")]
        let given = std::env::var_os("ANGELIA_DIST_KEY");
        let folder = crate::root().join("target/dist-key");
        match given {
            Some(secret) => {
                fs::create_dir_all(&folder)?;
                let key = Self { secret: secret.into(), public: folder.join("given.pub") };
                succeed(key.minisign("-R").arg("-f").arg("-p").arg(&key.public))?;
                Ok(key)
            }
            None => Self::make(&folder),
        }
    }

    /// Creates a key without a password in the folder, if there is none.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let key = Self { secret: folder.join("minisign.key"), public: folder.join("minisign.pub") };
        if !key.secret.is_file() || !key.public.is_file() {
            let new = ["-f", "-W", "-p"];
            succeed(key.minisign("-G").args(new).arg(&key.public))?;
            eprintln!("made a signing key in target/dist-key; ANGELIA_DIST_KEY names another one");
        }
        Ok(key)
    }

    /// Returns the public key as one word, without the comment above it in the file.
    pub(super) fn public(&self) -> Result<String> {
        let text = fs::read_to_string(&self.public).context("cannot read the public key")?;
        Ok(text.lines().nth(1).context("the public key's file is not minisign's")?.to_owned())
    }

    /// Signs the checksums in the folder, and puts the public key next to them.
    pub(super) fn sign(&self, folder: &Path, version: &str) -> Result<()> {
        let comment = format!("angelia {version}");
        succeed(self.minisign("-S").arg("-m").arg(folder.join(SUMS)).args(["-t", &comment]))?;
        fs::copy(&self.public, folder.join("minisign.pub"))?;
        Ok(())
    }

    /// Returns a minisign command. It gets our terminal, because a key may have a password.
    fn minisign(&self, action: &str) -> std::process::Command {
        let mut minisign = command("minisign");
        minisign.stdin(std::process::Stdio::inherit()).arg(action).arg("-s").arg(&self.secret);
        minisign
    }
}
