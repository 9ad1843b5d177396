//! `angelia package-files DIR`, hidden: writes the files that packages contain besides the program,
//! below a prefix: man pages, completions and the links with Hermes' names. `cargo xtask dist` runs
//! it, so that the packages match the program.

use std::{fs, io, path::Path};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{
    args::Cli,
    error::{CommandError, Exit},
    setup::hermes::{PACKAGED_LINKS, PROGRAMS},
};

/// The folders in which each shell finds the completions of installed programs.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/angelia"),
    (Shell::Zsh, "share/zsh/site-functions/_angelia"),
    (Shell::Fish, "share/fish/vendor_completions.d/angelia.fish"),
];

const MAN_PAGES: &str = "share/man/man1";

pub(crate) fn run(prefix: &Path) -> Result<Exit, CommandError> {
    write_files(prefix).map(|()| Exit::Done).map_err(|error| {
        let message = format!("cannot write the files into {}: {error}", prefix.display());
        CommandError::new(Exit::Failed, message).with_hint("name an empty folder")
    })
}

fn write_files(prefix: &Path) -> io::Result<()> {
    let man = prefix.join(MAN_PAGES);
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(Cli::command(), &man)?;
    for (shell, path) in COMPLETIONS {
        let path = prefix.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "angelia", &mut script);
        fs::write(path, script)?;
    }
    let links = prefix.join(PACKAGED_LINKS);
    fs::create_dir_all(&links)?;
    for (name, _) in PROGRAMS {
        std::os::unix::fs::symlink("../../../bin/angelia", links.join(name))?;
    }
    Ok(())
}
