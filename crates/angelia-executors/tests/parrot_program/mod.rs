//! A stand-in for the program with the `parrot` subcommand, which another crate builds. A script
//! runs the test's own executable with its ignored test [`the_process`], which is the same code,
//! with the pipes where a parrot expects them. Must be included by path under this name, at the
//! crate root.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd as _, unix::fs::PermissionsExt as _},
    path::PathBuf,
};

use angelia_executors::parrot;
use angelia_testkit::isolated_home::IsolatedHome;

const ARGUMENTS: &str = "ANGELIA_TEST_PARROT_ARGUMENTS";

/// Runs the parrot. Descriptor 3 is the pipe, because the test harness writes to stdout, which is
/// discarded.
#[test]
#[ignore = "not a test: the program the others start"]
fn the_process() {
    #[expect(clippy::disallowed_methods, reason = "how the script passes the arguments on")]
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let mut arguments = arguments.split(' ').map(str::to_owned);
    assert_eq!(arguments.next().as_deref(), Some(parrot::SUBCOMMAND));
    let output = File::options().write(true).open("/dev/fd/3").unwrap();
    let input = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let code = parrot::process::run(arguments, input, output.into(), &mut io::stderr());
    std::process::exit(code.into());
}

pub(crate) fn make(place: &IsolatedHome) -> PathBuf {
    let path = place.root().join("angelia-program");
    let script = format!(
        "#!/bin/sh\n{ARGUMENTS}=\"$*\" exec '{}' --ignored --exact parrot_program::the_process \
         --nocapture 3>&1 >/dev/null\n",
        std::env::current_exe().unwrap().display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}
