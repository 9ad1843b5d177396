//! The real agent programs, as `cargo xtask setup` installs them. A test that needs one fails when
//! it is missing; it is never skipped.

use std::path::PathBuf;

use crate::programs;

/// One installed version of Claude Code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealClaude {
    pub version: &'static str,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("{program} {version} is not installed at {path}; run `cargo xtask setup`")]
pub struct NotInstalled {
    program: &'static str,
    version: &'static str,
    path: PathBuf,
}

impl RealClaude {
    pub const OLDEST: &str = "2.1.197";
    pub const NEWEST: &str = "2.1.325";

    /// The oldest and the newest version we support.
    pub fn all() -> Result<[Self; 2], NotInstalled> {
        Ok([Self::oldest()?, Self::newest()?])
    }

    pub fn oldest() -> Result<Self, NotInstalled> {
        Self::find(Self::OLDEST)
    }

    pub fn newest() -> Result<Self, NotInstalled> {
        Self::find(Self::NEWEST)
    }

    fn find(version: &'static str) -> Result<Self, NotInstalled> {
        let package = format!("claude-code-{version}-{}", platform());
        let path = programs::workspace()
            .join("target/npm/claude/node_modules")
            .join(package)
            .join("claude");
        if path.is_file() {
            Ok(Self { version, path })
        } else {
            Err(NotInstalled {
                program: "Claude Code",
                version,
                path,
            })
        }
    }

    /// The arguments of every run over stdin and stdout.
    pub fn stream_arguments() -> Vec<&'static str> {
        let base = "-p --input-format stream-json --output-format stream-json --verbose";
        base.split(' ').collect()
    }
}

/// The installed version of Codex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealCodex {
    pub version: &'static str,
    pub path: PathBuf,
}

impl RealCodex {
    pub const VERSION: &str = "0.166.0";

    pub fn find() -> Result<Self, NotInstalled> {
        let version = Self::VERSION;
        let package = format!("codex-{version}-{}", platform());
        let processor = std::env::consts::ARCH;
        let system = if cfg!(target_os = "macos") {
            "apple-darwin"
        } else {
            "unknown-linux-musl"
        };
        let path = programs::workspace()
            .join("target/npm/codex/node_modules")
            .join(package)
            .join(format!("vendor/{processor}-{system}/bin/codex"));
        if path.is_file() {
            Ok(Self { version, path })
        } else {
            Err(NotInstalled {
                program: "Codex",
                version,
                path,
            })
        }
    }
}

/// The ending of the vendor's platform packages.
fn platform() -> String {
    let system = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        std::env::consts::OS
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

    #[test]
    fn a_missing_program_says_what_to_do() {
        let error = RealClaude::find("0.0.0").unwrap_err().to_string();
        assert!(error.contains("cargo xtask setup"), "{error}");
    }
}
