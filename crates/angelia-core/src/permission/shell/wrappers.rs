//! The table of commands that run other commands.

/// The way in which a command names the command that it runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrapper {
    /// After its options and operands.
    Prefix(PrefixWrapper),
    /// Like a prefix, and more arguments come from its input.
    Xargs(PrefixWrapper),
    /// After `-exec` and its like.
    Find,
    /// A script, in an option, in a file or from its input.
    Shell,
    /// `trap`: its first operand is a script.
    Trap,
    /// Every argument may be the start of a command, or a script.
    AnyArgument,
    /// It runs text that cannot be known here.
    Opaque,
    /// It sets variables that its arguments name.
    SetsVariables,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixWrapper {
    /// Options without a value.
    pub(super) flags: &'static [&'static str],
    /// Options with a value, in the next argument or in the same one.
    pub(super) valued: &'static [&'static str],
    /// Arguments before the command.
    pub(super) operands: usize,
    /// `NAME=value` may stand before the command.
    pub(super) assignments: bool,
}

const fn prefix(
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper::Prefix(PrefixWrapper { flags, valued, operands, assignments: false })
}

const fn assigning(flags: &'static [&'static str], valued: &'static [&'static str]) -> Wrapper {
    Wrapper::Prefix(PrefixWrapper { flags, valued, operands: 0, assignments: true })
}

const TIME_FLAGS: &[&str] = &["-p", "-a", "-v", "-q", "-l", "-h", "--portability", "--verbose"];
const SUDO_FLAGS: &[&str] = &["-A", "-B", "-b", "-E", "-H", "-k", "-K", "-n", "-P", "-S", "-N"];
const SUDO_VALUED: &[&str] =
    &["-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-U", "-u", "--user", "--group"];
const XARGS_FLAGS: &[&str] =
    &["-0", "-o", "-p", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose", "--exit"];
const XARGS_VALUED: &[&str] = &[
    "-a",
    "-d",
    "-E",
    "-I",
    "-J",
    "-L",
    "-n",
    "-P",
    "-R",
    "-s",
    "-S",
    "--arg-file",
    "--delimiter",
    "--max-args",
    "--max-chars",
    "--max-procs",
    "--process-slot-var",
];

const TABLE: &[(&[&str], Wrapper)] = &[
    (
        &["env"],
        assigning(
            &["-i", "-0", "-v", "-", "--ignore-environment", "--debug"],
            &["-u", "-C", "--unset", "--chdir"],
        ),
    ),
    (
        &["command", "builtin", "nohup", "setsid", "noglob", "nocorrect", "-", "and", "or"],
        prefix(&["-p", "-c", "-f", "-w", "--fork", "--wait", "--ctty"], &[], 0),
    ),
    (&["exec"], prefix(&["-c", "-l", "-cl", "-lc"], &["-a"], 0)),
    (&["time", "gtime"], prefix(TIME_FLAGS, &["-f", "-o", "--format", "--output"], 0)),
    (&["nice", "gnice"], prefix(&[], &["-n", "--adjustment"], 0)),
    (
        &["timeout", "gtimeout"],
        prefix(
            &["--foreground", "--preserve-status", "-v", "-p", "-f"],
            &["-s", "-k", "--signal", "--kill-after"],
            1,
        ),
    ),
    (&["stdbuf", "gstdbuf"], prefix(&[], &["-i", "-o", "-e", "--input", "--output", "--error"], 0)),
    (&["ionice"], prefix(&["-t"], &["-c", "-n", "--class", "--classdata"], 0)),
    (&["busybox", "toybox", "caffeinate", "unbuffer", "fakeroot"], prefix(&[], &[], 0)),
    (&["sudo"], assigning(SUDO_FLAGS, SUDO_VALUED)),
    (&["doas"], assigning(&["-n", "-L"], &["-u", "-C", "-a"])),
    (
        &["xargs", "gxargs"],
        Wrapper::Xargs(PrefixWrapper {
            flags: XARGS_FLAGS,
            valued: XARGS_VALUED,
            operands: 0,
            assignments: false,
        }),
    ),
    (&["find", "gfind", "fd", "fdfind"], Wrapper::Find),
    (
        &[
            "sh", "bash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "rbash", "rzsh", "fish",
            "csh", "tcsh", "yash", "posh", "hush", "osh", "brush",
        ],
        Wrapper::Shell,
    ),
    (&["trap"], Wrapper::Trap),
    (
        &[
            "su",
            "runuser",
            "script",
            "flock",
            "watch",
            "chroot",
            "unshare",
            "nsenter",
            "setpriv",
            "systemd-run",
            "systemd-inhibit",
            "strace",
            "ltrace",
            "gdb",
            "perf",
            "valgrind",
            "chrt",
            "taskset",
            "numactl",
            "prlimit",
            "setarch",
            "linux32",
            "linux64",
            "arch",
            "cgexec",
            "dbus-run-session",
            "dbus-launch",
            "ssh-agent",
            "xvfb-run",
            "rlwrap",
            "torsocks",
            "torify",
            "proxychains",
            "proxychains4",
            "firejail",
            "bwrap",
            "start-stop-daemon",
            "daemonize",
            "setuidgid",
            "softlimit",
            "chpst",
            "s6-setuidgid",
            "entr",
            "run-one",
            "chronic",
            "ts",
            "parallel",
            "rush",
            "pkexec",
            "gosu",
            "su-exec",
            "tini",
            "dumb-init",
            "catchsegv",
            "ld.so",
            "screen",
            "tmux",
            "hyperfine",
            "ssh",
        ],
        Wrapper::AnyArgument,
    ),
    (
        &[
            "eval",
            ".",
            "source",
            "alias",
            "fc",
            "r",
            "enable",
            "bind",
            "complete",
            "compgen",
            "compopt",
            "emulate",
            "autoload",
            "zmodload",
            "sched",
            "zle",
            "functions",
            "coproc",
            "hash",
            "rehash",
            "at",
            "batch",
            "crontab",
            "mapfile",
            "readarray",
        ],
        Wrapper::Opaque,
    ),
    (
        &[
            "declare", "typeset", "local", "readonly", "export", "read", "printf", "getopts",
            "unset", "let", "integer", "float", "test", "[", "[[", "wait", "vared", "print", "set",
        ],
        Wrapper::SetsVariables,
    ),
];

/// Looks a command up by its name without the folder.
pub(super) fn find_wrapper(name: &str) -> Option<Wrapper> {
    let is_loader = name.starts_with("ld-linux") || name.starts_with("ld-musl");
    if is_loader {
        return Some(Wrapper::AnyArgument);
    }
    TABLE.iter().find(|(names, _)| names.contains(&name)).map(|(_, wrapper)| *wrapper)
}

/// Variables whose values the shell runs or uses to find what to run.
pub(super) fn runs_its_value(variable: &str) -> bool {
    matches!(
        variable,
        "PS0"
            | "PS1"
            | "PS2"
            | "PS4"
            | "PROMPT_COMMAND"
            | "BASH_ENV"
            | "ENV"
            | "BASH_ALIASES"
            | "BASH_CMDS"
            | "SHELLOPTS"
            | "BASHOPTS"
            | "aliases"
            | "galiases"
            | "saliases"
            | "functions"
            | "commands"
            | "dis_aliases"
            | "dis_functions"
            | "ZDOTDIR"
            | "FPATH"
            | "fpath"
            | "precmd_functions"
            | "chpwd_functions"
            | "preexec_functions"
    )
}
