//! `cargo xtask dist`: builds every package of Angelia into `target/dist`
//! (`docs/design/0023-distribution.md`).
//!
//! - [`target`]: the processors, and their names in each kind of package.
//! - `build`: compiles the program and lets it write its man pages, completions and links.
//! - [`payload`]: the files of a release, below a prefix.
//! - `archive`, `deb`, `npm`, `wheel`: pure functions from these files to a package.
//! - `sbom`: the list of crates in the program; `sums`: checksums and their signature.
//! - `check`: installs every package in an otherwise empty place, and runs the program.

mod archive;
mod build;
mod check;
mod deb;
mod npm;
mod payload;
mod sbom;
mod sums;
mod target;
#[cfg(test)]
mod tests;
mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use self::{
    payload::Payload,
    target::{DEFAULT_TARGETS, TARGETS, Target},
};
use crate::program::{cargo, command, output};

/// The data shared by all packages of a release.
struct Release {
    version: String,
    description: String,
    /// The time of all files in the packages, in seconds since 1970.
    time: u64,
}

/// Runs `cargo xtask dist [TRIPLE…]` or `cargo xtask dist check`.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if arguments == ["check"] {
        check::check(&folder())?;
        return Ok(ExitCode::SUCCESS);
    }
    let targets = match arguments {
        [] => DEFAULT_TARGETS.to_vec(),
        named => named.iter().map(|triple| find_target(triple)).collect::<Result<_>>()?,
    };
    build_packages(&targets)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds all packages, installs each of them, and runs the program. This is a step of `test full`.
pub(crate) fn build_and_check() -> Result<()> {
    build_packages(&DEFAULT_TARGETS)?;
    check::check(&folder())
}

fn folder() -> PathBuf {
    crate::root().join("target/dist")
}

fn find_target(triple: &str) -> Result<&'static Target> {
    let found = TARGETS.iter().find(|target| target.triple == triple);
    found.with_context(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
        format!("there is no target {triple:?}; choose from: {}", known.join(", "))
    })
}

fn build_packages(targets: &[&'static Target]) -> Result<()> {
    let metadata = metadata()?;
    let release = Release::read(&metadata)?;
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let tools = crate::setup::install_release_tools()?;
    let programs = build::build(targets, &tools)?;
    let files = build::write_package_files(&programs)?;
    for (target, program) in targets.iter().zip(&programs) {
        let payload = Payload::collect(&fs::read(program)?, &files, &crate::root())?;
        write_packages(&release, target, &payload, &folder)?;
    }
    let sbom = sbom::describe(&release, &metadata, &crate::root())?;
    fs::write(folder.join(format!("angelia-{}.cdx.json", release.version)), sbom)?;
    let key = sums::SigningKey::find()?;
    let script = fs::read_to_string(crate::root().join("packaging/install.sh"))?;
    fs::write(folder.join("install.sh"), sums::with_public_key(&script, &key.public()?)?)?;
    sums::write(&folder)?;
    key.sign(&folder, &release.version)?;
    show(&folder)
}

/// Writes every kind of package for one target.
fn write_packages(
    release: &Release,
    target: &Target,
    payload: &Payload,
    folder: &Path,
) -> Result<()> {
    let packages = [
        (archive::file_name(release, target), archive::pack(release, target, payload)?),
        (deb::file_name(release, target), deb::pack(release, target, payload)?),
        (npm::file_name(release, target), npm::pack(release, target, payload)?),
        (wheel::file_name(release, target), wheel::pack(release, target, payload)?),
    ];
    for (name, bytes) in packages {
        fs::write(folder.join(&name), bytes).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

fn metadata() -> Result<Value> {
    let list = ["metadata", "--format-version", "1", "--locked"];
    let platform = ["--filter-platform", DEFAULT_TARGETS[0].triple];
    let metadata = output(cargo().args(list).args(platform))?
        .context("cargo metadata failed; is Cargo.lock up to date? run `cargo check`")?;
    Ok(serde_json::from_str(&metadata)?)
}

impl Release {
    fn read(metadata: &Value) -> Result<Self> {
        let packages = metadata["packages"].as_array().context("no packages")?;
        let own = packages.iter().find(|package| package["name"] == "angelia");
        let own = own.context("cargo metadata has no package angelia")?;
        let text = |key: &str| own[key].as_str().unwrap_or_default().to_owned();
        // Use the time of the commit, so that the same sources yield the same packages.
        let time = output(command("git").args(["log", "-1", "--format=%ct"]))?;
        let time = time.and_then(|seconds| seconds.parse().ok());
        Ok(Self {
            version: text("version"),
            description: text("description"),
            time: time.context("cannot read the time of the last commit; dist needs a checkout")?,
        })
    }
}

/// Prints the names and sizes of the packages.
fn show(folder: &Path) -> Result<()> {
    for path in sums::files(folder)? {
        let size = fs::metadata(&path)?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        eprintln!("{:>8.1} MB  {name}", size as f64 / 1e6);
    }
    eprintln!("in target/dist; install with: sh target/dist/install.sh");
    if !folder.join("SHA256SUMS.minisig").is_file() {
        bail!("the signature is missing");
    }
    Ok(())
}
