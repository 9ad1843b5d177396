//! Every package is built from a stand-in program and read back; `install.sh` installs it.

mod install_script;
mod packages;

use std::{fs, path::Path};

use super::{Release, payload::Payload, target::Target};

/// A program that only knows its version.
const STAND_IN: &[u8] = b"#!/bin/sh\necho angelia 9.9.9\n";

fn release() -> Release {
    Release { version: "9.9.9".into(), description: "A stand-in".into(), time: 1_700_000_000 }
}

/// Returns the target of this machine.
fn target() -> &'static Target {
    let targets = super::DEFAULT_TARGETS;
    targets.into_iter().find(|target| target.machine == std::env::consts::ARCH).unwrap()
}

/// Returns a payload with the kinds of files that the real program writes.
fn payload() -> Payload {
    let written = tempfile::tempdir().unwrap();
    put(written.path(), "share/man/man1/angelia.1", ".TH angelia 1\n");
    put(written.path(), "share/bash-completion/completions/angelia", "complete angelia\n");
    fs::create_dir_all(written.path().join("libexec/angelia/hermes")).unwrap();
    let link = written.path().join("libexec/angelia/hermes/hermes-busd");
    std::os::unix::fs::symlink("../../../bin/angelia", link).unwrap();
    Payload::collect(STAND_IN, written.path(), &crate::root()).unwrap()
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
