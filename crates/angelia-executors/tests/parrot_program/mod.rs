//! A program that has the subcommand `parrot`: the real one is built by another crate. So a test's own
//! executable stands in for it: a script calls its ignored test [`the_process`], which is the same
//! code, with the pipes where a parrot expects them. Included by path, under this name, at the top.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

use angelia_executors::parrot;
use angelia_testkit::isolated::Isolated;

const ARGUMENTS: &str = "ANGELIA_TEST_PARROT_ARGUMENTS";

/// Descriptor 3 is the pipe; stdout belongs to the test's own reporting and leads nowhere.
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
    let input = BufReader::new(io::stdin());
    let code = parrot::process::run(arguments, input, output, &mut io::stderr());
    std::process::exit(code.into());
}

pub(crate) fn make(place: &Isolated) -> PathBuf {
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
