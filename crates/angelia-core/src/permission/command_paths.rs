//! The paths that a command names literally, and whether it can change them.

use std::path::{Path, PathBuf};

use super::{
    protected::Touch,
    shell::{Invocation, Invocations, Piece, Redirect, RedirectKind, Word},
};
use crate::model::{CommandAccess, CommandLine};

/// Further paths are ignored.
const MAX_PATHS: usize = 512;

/// Commands whose arguments are not paths.
const TALKERS: &[&str] =
    &["echo", "printf", "true", "false", ":", "sleep", "kill", "exit", "return"];

/// Commands that only read the files they name, whatever their options.
const READERS: &[&str] = &[
    "cat",
    "bat",
    "ls",
    "eza",
    "head",
    "tail",
    "less",
    "more",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "stat",
    "file",
    "wc",
    "diff",
    "cmp",
    "comm",
    "du",
    "df",
    "tree",
    "readlink",
    "realpath",
    "basename",
    "dirname",
    "test",
    "[",
    "[[",
    "cd",
    "pushd",
    "popd",
    "pwd",
    "uniq",
    "cut",
    "nl",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shasum",
    "cksum",
    "jq",
    "which",
    "type",
    "tr",
    "rev",
    "column",
    "fold",
    "fmt",
    "tac",
    "join",
    "paste",
];

/// Subcommands of git that do not change the files they name.
const GIT_READERS: &[&str] = &[
    "add",
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "ls-files",
    "ls-tree",
    "grep",
    "rev-parse",
    "commit",
    "cat-file",
    "check-ignore",
    "describe",
    "rev-list",
    "shortlog",
    "branch",
    "tag",
];

/// A path that a command names, absolute but not resolved.
pub(super) type NamedPath = (Touch, PathBuf);

/// Returns the paths that the command names. `user_home` replaces `~`.
pub(super) fn named_paths(command: &CommandAccess, cwd: &Path, user_home: &Path) -> Vec<NamedPath> {
    // Parts of a command may be unknown; the known ones still count.
    let found = match &command.line {
        CommandLine::Shell(text) => Invocations::known_of_script(text),
        CommandLine::Argv(argv) => {
            let argv: Vec<&str> = argv.iter().map(|argument| &**argument).collect();
            Invocations::known_of_argv(&argv)
        }
    };
    let mut paths = PathCollector { folders: vec![cwd.to_owned()], user_home, found: Vec::new() };
    for invocation in &found.all {
        paths.add_invocation(invocation);
    }
    for redirect in &found.redirects {
        paths.add_redirect(redirect);
    }
    paths.found
}

struct PathCollector<'a> {
    /// The directories in which a command may run: the first one, and the target of every `cd`.
    folders: Vec<PathBuf>,
    user_home: &'a Path,
    found: Vec<NamedPath>,
}

impl PathCollector<'_> {
    fn add_invocation(&mut self, invocation: &Invocation) {
        let arguments = invocation.words.get(1..).unwrap_or_default();
        if matches!(&*invocation.name, "cd" | "pushd")
            && let Some(target) = arguments.iter().find_map(stated_path)
        {
            let more: Vec<PathBuf> =
                self.folders.iter().map(|folder| self.absolute(folder, &target)).collect();
            self.folders.extend(more.into_iter().take(8));
        }
        if invocation.is_wrapper || TALKERS.contains(&&*invocation.name) {
            return;
        }
        let touch = touch_of(&invocation.name, arguments);
        for word in arguments {
            self.add_word(touch, word);
        }
    }

    fn add_redirect(&mut self, redirect: &Redirect) {
        match redirect.kind {
            RedirectKind::Write => self.add_word(Touch::Write, &redirect.target),
            RedirectKind::Read => self.add_word(Touch::Read, &redirect.target),
            RedirectKind::Duplicate | RedirectKind::Here(_) | RedirectKind::HereString => {}
        }
    }

    fn add_word(&mut self, touch: Touch, word: &Word) {
        let Some(text) = stated_path(word) else { return };
        // `--output=path` and `of=path`
        let value = text.split_once('=').map(|(_, value)| value.to_owned());
        let whole = (!text.starts_with('-')).then_some(text);
        for text in whole.into_iter().chain(value) {
            for folder in self.folders.clone() {
                if self.found.len() < MAX_PATHS {
                    self.found.push((touch, self.absolute(&folder, &text)));
                }
            }
        }
    }

    fn absolute(&self, folder: &Path, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some("") => self.user_home.to_owned(),
            Some(rest) if rest.starts_with('/') => self.user_home.join(&rest[1..]),
            _ => folder.join(text),
        }
    }
}

/// The text of a word as a path. A part that is not known becomes a name that no file has, so the
/// rest of the path still counts.
fn stated_path(word: &Word) -> Option<String> {
    const UNKNOWN: &str = "\u{fffd}";
    let mut text = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text { text: known, .. } => text.push_str(known),
            Piece::Hole { .. } => text.push_str(UNKNOWN),
        }
    }
    (!text.is_empty() && text != UNKNOWN && text.len() < 4096).then_some(text)
}

fn touch_of(name: &str, arguments: &[Word]) -> Touch {
    let has = |options: &[&str]| {
        arguments
            .iter()
            .filter_map(Word::plain_text)
            .any(|text| options.iter().any(|option| text.starts_with(option)))
    };
    let reads = match name {
        "git" => {
            let words = arguments.iter().filter_map(Word::plain_text);
            words
                .into_iter()
                .find(|text| !text.starts_with('-'))
                .is_some_and(|subcommand| GIT_READERS.contains(&&*subcommand))
        }
        "find" | "fd" => !has(&["-delete", "-fprint", "-fls"]),
        "sed" => !has(&["-i", "--in-place"]),
        "sort" => !has(&["-o", "--output"]),
        "awk" | "gawk" | "mawk" => !has(&["-i"]),
        name => READERS.contains(&name),
    };
    if reads { Touch::Read } else { Touch::Write }
}
