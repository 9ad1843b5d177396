//! `angelia setup hermes`: links the names of Hermes' bus programs to Angelia, in a folder on PATH.
//!
//! These names belong to other people's programs. A name that already means another program, in
//! this folder or anywhere else on PATH, is left alone. A link that leads to Angelia counts as
//! ours.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;

use super::SetupChange;
use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::Environment,
};

/// Hermes' program names, and the commands of Angelia that they run.
pub(crate) const PROGRAMS: [(&str, &str); 4] = [
    ("hermes-busd", "angelia bus"),
    ("hermes-bus-server", "angelia bus run"),
    ("notify-hermes", "angelia notify"),
    ("notify-agent", "typing into a tmux session"),
];

/// The folder of the links in a package, below its prefix. It is not on any PATH.
pub(crate) const PACKAGED_LINKS: &str = "libexec/angelia/hermes";

#[derive(Debug, Args)]
pub(crate) struct HermesArgs {
    #[command(flatten)]
    pub(crate) change: SetupChange,

    /// The folder for the links; by default `$XDG_BIN_HOME`, or else `~/.local/bin`.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

pub(super) fn run(args: &HermesArgs, environment: &Environment) -> Result<Exit, CommandError> {
    let program = std::env::current_exe().map_err(CommandError::internal)?;
    let links = LinkFolder {
        dir: match &args.dir {
            Some(dir) => std::path::absolute(dir).map_err(CommandError::internal)?,
            None => default_dir(environment)?,
        },
        search_path: environment
            .get("PATH")
            .map(std::env::split_paths)
            .into_iter()
            .flatten()
            .collect(),
        program,
    };
    if args.change.undo {
        undo(&links)
    } else if args.change.write {
        write(&links)
    } else {
        show(&links)
    }
}

fn default_dir(environment: &Environment) -> Result<PathBuf, CommandError> {
    if let Some(dir) = environment.non_empty("XDG_BIN_HOME") {
        return Ok(dir.into());
    }
    let home = environment.home().ok_or_else(|| {
        CommandError::new(Exit::Config, "cannot tell where to put the links: HOME is not set")
            .with_hint("set HOME, or name a folder with --dir")
    })?;
    Ok(home.join(".local/bin"))
}

/// The folder for the links, with the data needed to decide about each link.
struct LinkFolder {
    dir: PathBuf,
    search_path: Vec<PathBuf>,
    program: PathBuf,
}

/// What a name currently refers to.
#[derive(Debug, PartialEq, Eq)]
enum NameState {
    Free,
    /// A link to Angelia.
    Ours(PathBuf),
    /// A link of ours whose target is gone, for example after uninstalling.
    Dangling(PathBuf),
    /// Another program.
    Taken(PathBuf),
}

impl LinkFolder {
    /// Returns what the name refers to in our folder, or else on PATH.
    fn state(&self, name: &str) -> NameState {
        let own = self.dir.join(name);
        if own.symlink_metadata().is_ok() {
            return match (self.is_ours(&own), own.exists()) {
                (true, true) => NameState::Ours(own),
                (true, false) => NameState::Dangling(own),
                (false, _) => NameState::Taken(own),
            };
        }
        let mut found = self.search_path.iter().map(|dir| dir.join(name));
        match found.find(|path| path.is_file()) {
            Some(path) if self.is_ours(&path) => NameState::Ours(path),
            Some(path) => NameState::Taken(path),
            None => NameState::Free,
        }
    }

    /// Returns whether the path is a link to this program, or to Angelia elsewhere.
    fn is_ours(&self, path: &Path) -> bool {
        let Ok(target) = fs::read_link(path) else { return false };
        let is_program = target.file_name().is_some_and(|name| name == "angelia");
        let is_packaged = target.parent().is_some_and(|dir| dir.ends_with(PACKAGED_LINKS));
        let leads_here = || match (path.canonicalize(), self.program.canonicalize()) {
            (Ok(target), Ok(program)) => target == program,
            _ => false,
        };
        is_program || is_packaged || leads_here()
    }

    /// Returns the target of a link: the package's own link, which moves with the package, or else
    /// this program.
    fn target(&self, name: &str) -> PathBuf {
        let prefix = self.program.parent().and_then(Path::parent);
        let packaged = prefix.map(|prefix| prefix.join(PACKAGED_LINKS).join(name));
        packaged.filter(|link| link.exists()).unwrap_or_else(|| self.program.clone())
    }

    /// Creates the link. Fails if there already is a file with this name.
    fn link(&self, name: &str) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        std::os::unix::fs::symlink(self.target(name), self.dir.join(name))
    }

    fn is_on_path(&self) -> bool {
        self.search_path.contains(&self.dir)
    }
}

fn show(links: &LinkFolder) -> Result<Exit, CommandError> {
    for (name, command) in PROGRAMS {
        let state = match links.state(name) {
            NameState::Free => "not on PATH".to_owned(),
            NameState::Ours(path) => format!("linked: {}", path.display()),
            NameState::Dangling(path) => format!("{} leads nowhere", path.display()),
            NameState::Taken(path) => format!("{} is another program", path.display()),
        };
        print::line(&format!("{name:<18} {command:<27} {state}"))?;
    }
    let dir = links.dir.display();
    print::line(&format!(
        "\n`angelia setup hermes --write` links the names that are not on PATH into {dir}."
    ))
}

fn write(links: &LinkFolder) -> Result<Exit, CommandError> {
    let mut taken = Vec::new();
    for (name, _) in PROGRAMS {
        match links.state(name) {
            NameState::Ours(path) => {
                print::line(&format!("{} is linked already", path.display()))?;
                continue;
            }
            NameState::Taken(path) => {
                taken.push(path.display().to_string());
                continue;
            }
            NameState::Dangling(path) => {
                fs::remove_file(&path).map_err(|error| failure(&path, &error))?;
            }
            NameState::Free => {}
        }
        let path = links.dir.join(name);
        links.link(name).map_err(|error| failure(&path, &error))?;
        print::line(&format!("{} → {}", path.display(), links.target(name).display()))?;
    }
    if !links.is_on_path() {
        let dir = links.dir.display();
        print::note(&format!("{dir} is not on PATH; add it with: export PATH=\"{dir}:$PATH\""));
    }
    if taken.is_empty() {
        return Ok(Exit::Done);
    }
    let message = format!("left alone, because it is another program: {}", taken.join(", "));
    Err(CommandError::new(Exit::Failed, message)
        .with_hint("remove it or uninstall its package, then run this again"))
}

fn undo(links: &LinkFolder) -> Result<Exit, CommandError> {
    for (name, _) in PROGRAMS {
        let path = links.dir.join(name);
        if links.is_ours(&path) {
            fs::remove_file(&path).map_err(|error| failure(&path, &error))?;
            print::line(&format!("{} removed", path.display()))?;
        }
    }
    Ok(Exit::Done)
}

fn failure(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(Exit::Failed, format!("cannot change {}: {error}", path.display()))
        .with_hint("name a folder that you may write with --dir")
}
