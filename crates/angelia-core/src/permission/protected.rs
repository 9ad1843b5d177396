//! The table of protected paths: files whose change makes other programs run something, and
//! credentials. No level and no general pattern allows them without a person.

use std::path::{Component, Path};

use crate::{model::SessionId, ports::KnownPlaces};

/// Folders that no call changes without a person, wherever they are. Several components are written
/// with `/`.
const FOLDERS: &[&str] = &[
    ".git",
    ".githooks",
    ".husky",
    ".hg",
    ".svn",
    ".jj",
    ".angelia",
    ".hermes",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".cargo",
    ".yarn",
    ".mvn",
    ".zed",
    ".fleet",
    ".config/git",
    ".config/fish",
    ".config/systemd",
    ".config/autostart",
    ".config/environment.d",
    ".config/nvim",
    ".local/share/systemd",
    "Library/LaunchAgents",
    ".vim",
    ".oh-my-zsh",
    ".zsh",
    ".bashrc.d",
    ".profile.d",
];

/// Files that no call changes without a person, wherever they are.
const FILES: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
    ".hgrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".vimrc",
    ".exrc",
    ".gdbinit",
    ".lldbinit",
    ".tmux.conf",
    ".envrc",
    ".ripgreprc",
    ".mcp.json",
    ".devcontainer.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".bazelrc",
    ".bazelversion",
    ".bazeliskrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    "lefthook.yaml",
    ".lefthook.yaml",
    "gradle-wrapper.properties",
    "maven-wrapper.properties",
    "pyrightconfig.json",
    "authorized_keys",
    ".pythonrc",
    ".pypirc",
];

/// Folders with credentials: reading them needs a person too.
const CREDENTIAL_FOLDERS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".password-store",
    ".terraform.d",
    ".oci",
    ".config/op",
    ".local/share/keyrings",
];

/// Files with credentials: reading them needs a person too.
const CREDENTIAL_FILES: &[&str] = &[
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".credentials.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Parts of the system whose files are programs' configuration, or stand for other files.
const SYSTEM: &[&str] =
    &["/etc", "/proc", "/sys", "/boot", "/var/spool/cron", "/Library/LaunchDaemons"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
}

/// The session that touches a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toucher<'a> {
    pub(crate) session: SessionId,
    pub(crate) profile: &'a str,
    /// The session's directory as a real path.
    pub(crate) cwd: &'a Path,
    pub(crate) places: &'a KnownPlaces,
}

/// The folder with files for a session's chat, below its own folder `sessions/ID`.
pub const CHAT_FILES: &str = "output/chat";

/// The part of a path that is protected. A pattern that names it lifts the protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// A folder or file of the table.
    Named(&'static str),
    /// Everything below this folder.
    Below(String),
}

impl Protection {
    /// Whether the subject of a pattern names this protected path.
    pub(crate) fn is_named_by(&self, subject: &str) -> bool {
        match self {
            Self::Named(name) => fold(subject).contains(&fold(name)),
            Self::Below(folder) => {
                let start = subject.split('*').next().unwrap_or_default();
                Path::new(start).starts_with(folder) || *start == *folder
            }
        }
    }
}

/// Returns the protection that keeps a call from touching a real path without asking a person.
pub(crate) fn find_protection(real: &Path, touch: Touch, by: &Toucher<'_>) -> Option<Protection> {
    let home = &by.places.angelia_home;
    if real.starts_with(home) {
        let is_own = match touch {
            Touch::Read => may_read_in_home(real, by),
            Touch::Write => is_for_chat(real, by),
        };
        return (!is_own).then(|| Protection::Below(home.display().to_string()));
    }
    if touch == Touch::Write {
        let is_stream = matches!(
            real.to_str(),
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero")
        ) || real.starts_with("/dev/fd");
        let system = SYSTEM.iter().chain(&["/dev"]).find(|folder| real.starts_with(folder));
        if let Some(folder) = system.filter(|_| !is_stream) {
            return Some(Protection::Below((*folder).to_owned()));
        }
    }
    // A session may work in a folder below a protected one, such as a linked worktree.
    let seen = real.strip_prefix(by.cwd).unwrap_or(real);
    let names: Vec<String> = seen
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(fold(&name.to_string_lossy())),
            _ => None,
        })
        .collect();
    let (folders, files): (&[&[&str]], &[&[&str]]) = match touch {
        Touch::Read => (&[CREDENTIAL_FOLDERS], &[CREDENTIAL_FILES]),
        Touch::Write => (&[FOLDERS, CREDENTIAL_FOLDERS], &[FILES, CREDENTIAL_FILES]),
    };
    let in_folder = folders.iter().flat_map(|table| table.iter()).find(|folder| {
        let parts: Vec<String> = folder.split('/').map(fold).collect();
        names.windows(parts.len()).any(|window| window == parts)
    });
    let is_public = touch == Touch::Read
        && names.last().is_some_and(|name| {
            matches!(&**name, "known_hosts" | "config")
                || Path::new(name).extension().is_some_and(|end| end == "pub")
        });
    if let Some(folder) = in_folder.filter(|_| !is_public) {
        return Some(Protection::Named(folder));
    }
    let mut agents = by.places.agent_files.iter().filter(|_| touch == Touch::Write);
    if let Some(name) = agents.find(|file| names.contains(&fold(file))) {
        return Some(Protection::Named(name));
    }
    let name = names.last()?;
    let file = files.iter().flat_map(|table| table.iter()).find(|file| fold(file) == *name)?;
    Some(Protection::Named(file))
}

/// The parts of `$ANGELIA_HOME` that a session's agent may read: its own files and its profile's.
fn may_read_in_home(real: &Path, by: &Toucher<'_>) -> bool {
    let home = &by.places.angelia_home;
    let own = home.join("sessions").join(by.session.to_string());
    let readable = [
        own.join("inbox"),
        own.join("output"),
        home.join("skills"),
        home.join("memory").join(by.profile),
    ];
    readable.iter().any(|folder| real.starts_with(folder))
        || (real.starts_with(by.cwd) && by.cwd.starts_with(home.join("work")))
}

/// Whether the path is in the session's folder of files for its chat, where its agent may write.
pub(crate) fn is_for_chat(real: &Path, by: &Toucher<'_>) -> bool {
    let own = by.places.angelia_home.join("sessions").join(by.session.to_string());
    real.starts_with(own.join(CHAT_FILES))
}

/// Whether the path is one of the session's own files, which its agent may read at every level.
pub(crate) fn is_own_file(real: &Path, by: &Toucher<'_>) -> bool {
    real.starts_with(&by.places.angelia_home) && may_read_in_home(real, by)
}

/// Folds names that some file systems treat as equal: case, invisible characters, and dots and
/// spaces at the end.
fn fold(name: &str) -> String {
    let name = name.trim_end_matches([' ', '.']);
    name.chars()
        .filter(|c| {
            !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{206a}'..='\u{206f}' | '\u{feff}')
        })
        .flat_map(char::to_lowercase)
        .map(|c| match c {
            'ı' => 'i',
            'ſ' => 's',
            other => other,
        })
        .collect()
}
