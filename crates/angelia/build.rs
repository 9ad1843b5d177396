//! Lays the release program out by use.
//!
//! The system maps a program in pieces of 64 KB around whatever was touched. What a process needs
//! for a host's turns is a sixth of our code: scattered as the linker finds it, it takes three times
//! its size in memory. `layout.ld` names it function by function, and the linker puts it side by
//! side. `cargo xtask layout` writes that file.
//!
//! Nothing but memory and the time of a start depends on it: names that are gone match nothing, and
//! a linker that may not be up to it is not asked.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything by its environment, and the compiler is asked what its linker can do"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Where the linker says what it has put where; `cargo xtask layout` wants to know.
const MAP: &str = "ANGELIA_LINK_MAP";

fn main() {
    println!("cargo::rerun-if-changed=layout.ld");
    println!("cargo::rerun-if-env-changed={MAP}");
    // What runs only in tests is not worth the time.
    if variable("PROFILE") != "release" {
        return;
    }
    // A copy, because cargo knows its own folder again when the workspace has moved.
    let folder = PathBuf::from(variable("OUT_DIR"));
    let script = folder.join("layout.ld");
    let arguments = ["-T".to_owned(), script.display().to_string()];
    if fs::copy("layout.ld", &script).is_ok() && links_with(&folder, &arguments) {
        for argument in arguments {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
    if let Ok(map) = env::var(MAP) {
        println!("cargo::rustc-link-arg-bins=-Wl,-Map={map}");
    }
}

/// Only LLD knows this one. It takes no time over thousands of rules; that is not known of others.
const LLD: &str = "-Clink-arg=-Wl,--symbol-ordering-file=/dev/null";

/// Tries it on the smallest program there is, with everything else as it will be.
fn links_with(folder: &Path, arguments: &[String]) -> bool {
    let source = folder.join("smallest.rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(&source).arg("-o").arg(folder.join("smallest"));
    rustc.args(["--target", &variable("TARGET")]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.args(arguments.iter().map(|one| format!("-Clink-arg={one}")));
    rustc.arg(LLD);
    let tried = rustc.stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Cargo sets them all.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
