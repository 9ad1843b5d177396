//! Options that let a well-known command write files, read another configuration or run programs
//! that are not named. A pattern such as `Bash(git *)` does not cover them unless it names them, nor
//! the options whose value is run (`shell/options.rs`). The tables are small; a command that is not in
//! them is covered with all its options.

use super::shell::{Word, running_options};

struct GuardedCommand {
    names: &'static [&'static str],
    /// `--long`, `-short` or `-word`; an abbreviated long option counts too.
    options: &'static [&'static str],
    /// Options that count only before the first other word.
    global_options: &'static [&'static str],
    /// First words that count.
    subcommands: &'static [&'static str],
}

const TABLE: &[GuardedCommand] = &[
    GuardedCommand {
        names: &["git"],
        options: &[
            "--config",
            "--config-env",
            "--exec-path",
            "--output",
            "--output-directory",
            "--upload-archive",
            "-x",
            "--ext-diff",
            "--textconv",
            "-O",
            "-o",
            "--git-dir",
            "--work-tree",
            "--template",
            "--separate-git-dir",
            "--super-prefix",
            "--tool",
            "--editor",
            "--remote-sudo",
        ],
        global_options: &["-c", "-C"],
        subcommands: &[
            "config",
            "bisect",
            "submodule",
            "filter-branch",
            "difftool",
            "mergetool",
            "hook",
            "credential",
            "daemon",
            "instaweb",
            "send-email",
            "web--browse",
            "remote-ext",
            "fsmonitor--daemon",
            "maintenance",
            "var",
        ],
    },
    GuardedCommand {
        names: &["find", "fd", "fdfind"],
        options: &[
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-delete",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "--exec",
            "--exec-batch",
        ],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["rsync"],
        options: &["--daemon", "--config"],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["ssh", "scp", "sftp"],
        options: &["-o", "-F", "-S", "-D", "-E"],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["curl", "wget"],
        options: &[
            "-o",
            "-O",
            "--output",
            "--output-document",
            "--remote-name",
            "--output-dir",
            "-K",
            "--config",
            "-T",
            "--upload-file",
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--libcurl",
            "--etag-save",
            "--hsts",
            "-e",
            "--execute",
            "--post-file",
            "--body-file",
            "-P",
            "--directory-prefix",
            "-i",
            "--input-file",
            "-a",
            "--append-output",
        ],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["sed", "gsed"],
        options: &["-i", "--in-place", "-f", "--file"],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["sort"],
        options: &["-o", "--output", "-T", "--temporary-directory"],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["npm", "npx", "pnpm", "yarn"],
        options: &["--node-options", "--userconfig", "--globalconfig", "-c", "--call"],
        global_options: &["-C", "--prefix", "--dir", "--cwd"],
        subcommands: &["config", "set"],
    },
    GuardedCommand {
        names: &["node", "nodejs", "deno", "bun"],
        options: &["-e", "--eval", "-p", "--print", "-r", "--require", "--import", "--loader"],
        global_options: &[],
        subcommands: &["eval"],
    },
    GuardedCommand {
        names: &["cargo"],
        options: &["--config", "-Z", "--manifest-path"],
        global_options: &["-C"],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["make", "gmake"],
        options: &["-f", "--file", "--makefile", "-C", "--directory", "--eval", "-I"],
        global_options: &[],
        subcommands: &[],
    },
    GuardedCommand {
        names: &["go"],
        options: &["-overlay", "-modfile", "-C", "-o"],
        global_options: &[],
        subcommands: &["env", "generate"],
    },
];

/// Whether a pattern with this subject may cover the command, as far as its options go.
pub(super) fn allows_options(subject: &str, words: &[Word]) -> bool {
    let Some((Some(name), arguments)) =
        words.split_first().map(|(first, rest)| (first.literal(), rest))
    else {
        return true;
    };
    let name = name.rsplit('/').next().unwrap_or_default();
    let named = |option: &str| subject.contains(option);
    if !running_options(name, arguments).is_ok_and(|found| found.into_iter().all(named)) {
        return false;
    }
    let Some(guarded) = TABLE.iter().find(|guarded| guarded.names.contains(&name)) else {
        return true;
    };
    let mut is_global = true;
    for word in arguments {
        // An unknown argument may be such an option.
        let Some(text) = word.plain_text() else { return false };
        if !text.starts_with('-') {
            if is_global && guarded.subcommands.contains(&&*text) && !named(&text) {
                return false;
            }
            is_global = false;
            continue;
        }
        let mut options = guarded
            .options
            .iter()
            .chain(is_global.then_some(guarded.global_options).into_iter().flatten());
        if options.any(|option| is_option(&text, option) && !named(option)) {
            return false;
        }
    }
    // `make SHELL=…` and the like.
    !arguments.iter().any(|word| {
        name.ends_with("make") && word.plain_text().is_some_and(|text| text.contains('='))
    })
}

/// Whether an argument is the option, in a form that its command accepts.
fn is_option(text: &str, option: &str) -> bool {
    let given = text.split('=').next().unwrap_or_default();
    if option.starts_with("--") {
        // Long options may be abbreviated.
        return given.len() > 3 && given.starts_with("--") && option.starts_with(given);
    }
    if option.len() > 2 {
        return given == option || given.strip_prefix('-') == Some(option);
    }
    // A short option with its value, or among others.
    !text.starts_with("--") && text.starts_with('-') && text[1..].contains(&option[1..])
}
