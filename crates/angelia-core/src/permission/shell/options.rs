//! Options whose value a program runs as a command, or reads as settings that name one.

use super::{
    Unparsed, Word,
    following::subcommand_index,
    wrapper_table::GIT_VALUED,
    wrappers::{Names, folded, is_among},
};
use crate::model::glob_matches;

/// Some options of a program.
struct RunningOptions {
    names: Names,
    place: Place,
    /// `--long`, `-s` or `-word`. A long option may be abbreviated, a letter stand among others.
    options: Names,
    value: Value,
}

/// The arguments among which an option counts.
#[derive(Clone, Copy)]
enum Place {
    Any,
    /// Before the subcommand.
    Global,
    After(&'static str),
}

#[derive(Clone, Copy)]
enum Value {
    Command,
    /// A shell; what it runs is told elsewhere.
    Shell,
    /// A setting, `key=command`, if the key is one of these.
    Settings(Names),
    /// A setting, `key=command`, unless the key is one of these patterns.
    SettingsExcept(Names),
    /// The option says only at run time what is run.
    Unknown,
}

/// A command that an option runs.
#[derive(Debug)]
pub(super) struct OptionCommand {
    pub(super) option: &'static str,
    pub(super) command: Word,
    /// It is a shell, whose script is told elsewhere.
    pub(super) is_shell: bool,
}

const NO_SETTINGS: Names = "";

/// Settings of git with free text that no command comes out of. Others may have any value that
/// reads as a harmless command.
const HARMLESS_GIT_SETTINGS: Names = "advice.* author.* branch.* color.* commit.* committer.* \
    fetch.* format.* http.* log.* pull.* push.* remote.*.fetch remote.*.push safe.* user.*";

const SSH_SETTINGS: Value =
    Value::Settings("proxycommand localcommand remotecommand knownhostscommand xauthlocation");

const fn runs(names: Names, options: Names) -> RunningOptions {
    RunningOptions { names, place: Place::Any, options, value: Value::Command }
}

const fn git(place: Place, options: Names, value: Value) -> RunningOptions {
    RunningOptions { names: "git", place, options, value }
}

const fn reads(names: Names, options: Names, value: Value) -> RunningOptions {
    RunningOptions { names, place: Place::Any, options, value }
}

const TABLE: &[RunningOptions] = &[
    git(Place::Global, "-c", Value::SettingsExcept(HARMLESS_GIT_SETTINGS)),
    git(Place::Global, "--config-env", Value::Unknown),
    git(Place::After("clone"), "-c --config", Value::SettingsExcept(HARMLESS_GIT_SETTINGS)),
    git(Place::After("clone"), "-u", Value::Command),
    git(Place::After("rebase"), "-x", Value::Command),
    git(Place::After("difftool"), "-x", Value::Command),
    git(Place::After("grep"), "-O", Value::Command),
    git(
        Place::Any,
        "--upload-pack --receive-pack --exec --extcmd --open-files-in-pager --smtp-server \
            --to-cmd --cc-cmd --header-cmd --sendmail-cmd --env-filter --tree-filter \
            --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter \
            --setup --httpd --access-hook --authors-prog",
        Value::Command,
    ),
    reads("hg", "--config", Value::SettingsExcept(NO_SETTINGS)),
    runs("svn", "--diff-cmd --diff3-cmd --editor-cmd"),
    runs(
        "tar gtar bsdtar",
        "-I -F --to-command --use-compress-program --rsh-command --rmt-command --info-script \
            --new-volume-script",
    ),
    reads("tar gtar", "--checkpoint-action", Value::Settings("exec")),
    runs("cpio", "--rsh-command"),
    runs("zip", "-TT --unzip-command"),
    runs("rsync", "-e --rsh --rsync-path"),
    reads("ssh autossh scp sftp slogin", "-o", SSH_SETTINGS),
    runs("scp sftp", "-S -D"),
    reads("sshfs", "-o", Value::Settings("ssh_command proxycommand")),
    runs("mosh", "--ssh --server --client"),
    runs("sort gsort", "--compress-program"),
    runs("split gsplit", "--filter"),
    runs("man", "-P -B -H --pager --html"),
    runs("bat batcat delta ag", "--pager"),
    runs("rg", "--pre --hostname-bin"),
    runs("fzf", "--preview --bind"),
    runs("wget", "--use-askpass"),
    reads("wget", "-e --execute", Value::Settings("use_askpass useaskpass")),
    runs("nc ncat netcat", "-e -c --exec --sh-exec"),
    runs("tcpdump", "-z"),
    runs("rclone restic", "--password-command"),
    runs("borg", "--rsh"),
    runs("nodemon", "-x --exec"),
    reads("npm npx pnpm yarn", "--script-shell", Value::Shell),
    runs("nix-shell", "--run --command"),
    runs("go", "-exec -toolexec -vettool"),
    reads("cargo", "--config", Value::SettingsExcept(NO_SETTINGS)),
    reads("rustc", "-C --codegen", Value::Settings("linker")),
    runs("make gmake", "--eval -E"),
    reads("apt apt-get aptitude", "-o --option", Value::SettingsExcept(NO_SETTINGS)),
    runs("dpkg", "--pre-invoke --post-invoke"),
    runs("docker podman nerdctl docker-compose", "--entrypoint"),
    reads("su runuser", "-s --shell", Value::Shell),
    reads("systemd-run", "-S --shell", Value::Unknown),
    runs("fish", "-C --init-command"),
];

/// Returns the options that let a program run a command. `Err`: an argument that is not known may be
/// such an option.
pub(crate) fn running_options(
    name: &str,
    arguments: &[Word],
) -> Result<Vec<&'static str>, Unparsed> {
    let name = folded(name);
    let is_listed = TABLE.iter().any(|row| is_among(row.names, &name));
    if is_listed && arguments.iter().any(Word::has_hole) {
        return Err("an option is not literal");
    }
    let found = option_commands(&name, arguments)?;
    Ok(found.into_iter().map(|found| found.option).collect())
}

/// Returns the commands that the options of a program run.
pub(super) fn option_commands(
    name: &str,
    arguments: &[Word],
) -> Result<Vec<OptionCommand>, Unparsed> {
    let name = folded(name);
    let mut found = Vec::new();
    let mut rows = TABLE.iter().filter(|row| is_among(row.names, &name)).peekable();
    if rows.peek().is_none() {
        return Ok(found);
    }
    // `--$x` may be any option.
    let is_unknown = |word: &Word| {
        word.has_hole() && word.start().starts_with("--") && !word.start().contains('=')
    };
    if arguments.iter().any(is_unknown) {
        return Err("an option is not literal");
    }
    let subcommand = subcommand_index(arguments, GIT_VALUED);
    for row in rows {
        let among = match row.place {
            Place::Any => 0..arguments.len(),
            Place::Global => 0..subcommand,
            Place::After(expected) => {
                let is_expected =
                    arguments.get(subcommand).is_some_and(|word| word.start() == expected);
                if is_expected { subcommand + 1..arguments.len() } else { 0..0 }
            }
        };
        for index in among {
            for option in row.options.split_ascii_whitespace() {
                let next = arguments.get(index + 1);
                if let Some(value) = value_of(option, &arguments[index], next) {
                    found.extend(row.value.command(option, value)?);
                }
            }
        }
    }
    if name == "git" {
        found.extend(git_settings(arguments, subcommand)?);
    }
    if name.ends_with("tar") {
        found.extend(old_style_tar(arguments));
    }
    Ok(found)
}

/// The value of an option, if the argument has this option.
fn value_of(option: &str, argument: &Word, next: Option<&Word>) -> Option<Word> {
    let following = || next.cloned().unwrap_or_default();
    let text = argument.start();
    let given = text.split('=').next().unwrap_or_default();
    let is_long = option.len() > 2;
    if is_long {
        let is_same = given == option || given.strip_prefix('-') == Some(option);
        let is_short_form =
            option.starts_with("--") && given.len() > 3 && option.starts_with(given);
        if !is_same && !is_short_form {
            return None;
        }
        let has_value = given.len() < text.len();
        return Some(if has_value { argument.without(given.len() + 1) } else { following() });
    }
    if !text.starts_with('-') || text.starts_with("--") {
        return None;
    }
    let end = 1 + text[1..].find(&option[1..])? + 1;
    let is_last = end == text.len() && !argument.has_hole();
    Some(if is_last { following() } else { argument.without(end) })
}

impl Value {
    fn command(self, option: &'static str, value: Word) -> Result<Option<OptionCommand>, Unparsed> {
        let command = |command, is_shell| Ok(Some(OptionCommand { option, command, is_shell }));
        match self {
            Self::Command => command(value, false),
            Self::Shell => command(value, true),
            Self::Unknown => Err("an option takes what is run from elsewhere"),
            Self::Settings(_) | Self::SettingsExcept(_) => {
                let text = value.start();
                let Some(end) = text.find(|c: char| c == '=' || c.is_whitespace()) else {
                    return if value.has_hole() {
                        Err("a setting is not literal")
                    } else {
                        Ok(None)
                    };
                };
                let key = folded(&text[..end]);
                if !self.is_running(&key) {
                    return Ok(None);
                }
                let rest = text[end..].trim_start_matches(|c: char| c == '=' || c.is_whitespace());
                command(value.without(text.len() - rest.len()), false)
            }
        }
    }

    /// Whether the value of a setting is run.
    fn is_running(self, key: &str) -> bool {
        match self {
            Self::Settings(keys) => is_among(keys, key),
            Self::SettingsExcept(patterns) => {
                !patterns.split_ascii_whitespace().any(|pattern| glob_matches(pattern, key))
            }
            Self::Command | Self::Shell | Self::Unknown => true,
        }
    }
}

/// `git config KEY VALUE`, and addresses that name a command: `ext::command`.
fn git_settings(arguments: &[Word], subcommand: usize) -> Result<Vec<OptionCommand>, Unparsed> {
    let mut found = Vec::new();
    for word in arguments {
        let text = word.start();
        let is_setting = text.contains(".insteadOf") || text.starts_with("url.");
        if let Some(at) = text.find("ext::").filter(|at| *at == 0 || is_setting) {
            let command = word.without(at + "ext::".len());
            found.push(OptionCommand { option: "ext::", command, is_shell: false });
        }
    }
    let is_config = arguments.get(subcommand).is_some_and(|word| word.start() == "config");
    let operands = arguments.get(subcommand + 1..).filter(|_| is_config).unwrap_or_default();
    // Any word with a dot may be the key: `-f my.file alias.x …`.
    for (key, command) in operands.iter().zip(operands.iter().skip(1)) {
        if key.start().starts_with('-') || !key.start().contains('.') {
            continue;
        }
        let harmless = Value::SettingsExcept(HARMLESS_GIT_SETTINGS);
        if harmless.is_running(&folded(&key.plain_text().ok_or("a setting is not literal")?)) {
            let command = command.clone();
            found.push(OptionCommand { option: "config", command, is_shell: false });
        }
    }
    Ok(found)
}

/// `tar cfI a program`: the values of letters without a dash follow in their order.
fn old_style_tar(arguments: &[Word]) -> Vec<OptionCommand> {
    let letters = arguments.first().map(Word::start).unwrap_or_default();
    if letters.starts_with('-') || !letters.contains(['I', 'F']) {
        return Vec::new();
    }
    let values = arguments[1..].iter().cloned();
    values.map(|command| OptionCommand { option: "-I", command, is_shell: false }).collect()
}
