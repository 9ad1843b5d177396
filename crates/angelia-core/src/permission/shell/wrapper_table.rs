//! The table of commands that run other commands.

use super::wrappers::{
    Body, InputShell, Names, PLAIN, PrefixWrapper, Subcommand, Subcommands, Wrapper,
};

const fn prefix(flags: Names, valued: Names, operands: usize) -> Wrapper {
    Wrapper::Prefix(PrefixWrapper { flags, valued, operands, ..PLAIN })
}

/// A wrapper that starts a shell if no command is given, so all its options must be known.
const fn with_shell(flags: Names, valued: Names, operands: usize) -> PrefixWrapper {
    let shell = InputShell::AfterOperands;
    PrefixWrapper { flags, valued, operands, shell, is_strict: true, ..PLAIN }
}

const fn subcommands(valued: Names, all: &'static [Subcommand]) -> Wrapper {
    Wrapper::Subcommands(Subcommands { valued, all })
}

/// Runs the arguments after this subcommand.
const fn after(path: Names, operands: usize) -> Subcommand {
    Subcommand { path, wrapper: PrefixWrapper { operands, ..PLAIN } }
}

/// `docker run`, `docker exec`, `kubectl exec` and their like: a container or image, and a command.
const CONTAINER: PrefixWrapper = PrefixWrapper {
    flags: "-d -i -t -P -q -T --build --detach --init --interactive --no-deps --no-healthcheck \
        --no-tty --no-TTY --privileged --publish-all --quiet --quiet-pull --read-only \
        --remove-orphans --replace --rm --service-ports --stdin --tty --use-aliases",
    valued: "-a -c -e -f -h -m -n -p -s -u -v -w --add-host --annotation --arch --cap-add --cap-drop \
        --cidfile --container --context --cpu-shares --cpus --cpuset-cpus --detach-keys --device \
        --dns --entrypoint --env --env-file --file --gpus --group-add --hostname --image --index \
        --ip --ipc --kubeconfig --label --labels --link --log-driver --log-opt --memory --mount \
        --name --namespace --net --network --network-alias --overrides --pid --pids-limit \
        --platform --pod --port --publish --pull --restart --runtime --security-opt --server \
        --shm-size --stop-signal --stop-timeout --sysctl --target --tmpfs --ulimit --user \
        --userns --volume --volumes-from --workdir",
    operands: 1,
    ..PLAIN
};

/// Options of git before the subcommand whose value is the next argument.
pub(super) const GIT_VALUED: Names = "-C -c --attr-source --config-env --git-dir --namespace \
    --super-prefix --work-tree";

const UV_FLAGS: Names = "-q -v --active --all-extras --all-groups --dev --frozen --isolated \
    --live-stream --locked --no-capture-output --no-dev --no-project --no-sync --offline --quiet";

const UV_VALUED: Names = "-n -p --directory --env-file --extra --group --name --package --prefix \
    --project --python --with";

/// Programs of packages: `npx`, `npm exec` and their like.
const PACKAGE: PrefixWrapper = PrefixWrapper {
    flags: "-y --yes -q --quiet --no --no-install",
    valued: "-p --package",
    scripts: "-c --call",
    ..PLAIN
};

const EXEC: Wrapper = subcommands(
    "",
    &[Subcommand { path: "exec", wrapper: PACKAGE }, Subcommand { path: "x", wrapper: PACKAGE }],
);

pub(super) const TABLE: &[(Names, Wrapper)] = &[
    (
        "env genv",
        Wrapper::Prefix(PrefixWrapper {
            flags: "-i -0 -v - --ignore-environment --debug --block-signal --default-signal \
                --ignore-signal --list-signal-handling",
            valued: "-u -C -a -P --unset --chdir --argv0",
            splits: "-S --split-string",
            assignments: true,
            ..PLAIN
        }),
    ),
    ("command", Wrapper::Prefix(PrefixWrapper { flags: "-p", idle: "-v -V", ..PLAIN })),
    (
        "builtin nohup setsid noglob nocorrect - and or",
        prefix("-p -c -f -w --fork --wait --ctty", "", 0),
    ),
    ("exec", prefix("-c -l", "-a", 0)),
    (
        "time gtime",
        prefix("-p -a -v -q -l -h --portability --verbose --append", "-f -o --format --output", 0),
    ),
    ("nice gnice", prefix("", "-n --adjustment", 0)),
    (
        "timeout gtimeout",
        prefix("--foreground --preserve-status -v -p -f", "-s -k --signal --kill-after", 1),
    ),
    ("stdbuf gstdbuf", prefix("", "-i -o -e --input --output --error", 0)),
    ("ionice", prefix("-t", "-c -n --class --classdata", 0)),
    ("sshpass", prefix("-e -v", "-p -f -d -P", 0)),
    ("busybox toybox caffeinate unbuffer eatmydata", prefix("", "", 0)),
    ("npx bunx uvx", Wrapper::Prefix(PACKAGE)),
    (
        "sudo",
        Wrapper::Prefix(PrefixWrapper {
            assignments: true,
            idle: "-l -v -V -K --list --validate --version",
            ..with_shell(
                "-A -B -b -E -H -k -n -P -S -N -s -i --askpass --background --bell --login \
                    --non-interactive --preserve-env --reset-timestamp --set-home --shell \
                    --stdin",
                "-C -D -g -h -p -R -r -T -t -U -u --chdir --chroot --group --host --prompt \
                    --role --type --user",
                0,
            )
        }),
    ),
    (
        "doas",
        Wrapper::Prefix(PrefixWrapper {
            assignments: true,
            idle: "-L",
            ..with_shell("-n -s", "-u -C -a", 0)
        }),
    ),
    (
        "su runuser",
        Wrapper::Prefix(PrefixWrapper {
            scripts: "-c --command --session-command",
            shell: InputShell::Always,
            ..with_shell(
                "- -l -m -p -P -f --login --pty --preserve-environment",
                "-s -g -G -w --shell --group --supp-group",
                1,
            )
        }),
    ),
    (
        "script",
        Wrapper::Prefix(PrefixWrapper {
            scripts: "-c --command",
            shell: InputShell::Always,
            ..with_shell("-a -e -f -q -r -k -F --return --flush --quiet", "-E -I -B -O -o -m -T", 1)
        }),
    ),
    ("sg", Wrapper::Prefix(PrefixWrapper { body: Body::Script, ..with_shell("- -c", "", 1) })),
    (
        "newgrp",
        Wrapper::Prefix(PrefixWrapper { shell: InputShell::Always, ..with_shell("- -l", "", 1) }),
    ),
    (
        "ssh autossh",
        Wrapper::Prefix(PrefixWrapper {
            body: Body::Script,
            idle: "-N -V -G",
            ..with_shell(
                "-4 -6 -A -a -C -f -g -K -k -M -n -q -s -T -t -v -X -x -Y -y",
                "-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w",
                1,
            )
        }),
    ),
    ("chroot", Wrapper::Prefix(with_shell("--skip-chdir -n", "--groups --userspec -u -g -G", 1))),
    (
        "unshare",
        Wrapper::Prefix(with_shell(
            "-f -m -u -i -n -p -C -T -U -r -c --fork --mount --uts --ipc --net --pid --user \
                --cgroup --time --map-root-user --map-current-user --map-auto --kill-child \
                --mount-proc --keep-caps",
            "-R -w -S -G --root --wd --setuid --setgid",
            0,
        )),
    ),
    (
        "nsenter",
        Wrapper::Prefix(with_shell(
            "-a -m -u -i -n -p -C -U -F -e -r -w -T --all --mount --uts --ipc --net --pid \
                --user --cgroup --preserve-credentials --no-fork --root --wd --env",
            "-t -S -G -W --target --setuid --setgid --wdns",
            0,
        )),
    ),
    ("fakeroot", Wrapper::Prefix(with_shell("-u -v", "-l -f -s -i -b", 0))),
    ("proot", Wrapper::Prefix(with_shell("-0 -l -V", "-r -b -m -q -w -k -i -v -R -S", 0))),
    ("pkexec", Wrapper::Prefix(with_shell("--disable-internal-agent --keep-cwd", "-u --user", 0))),
    ("linux32 linux64", Wrapper::Prefix(with_shell("-R -v -3", "", 0))),
    (
        "parallel",
        Wrapper::Prefix(PrefixWrapper {
            body: Body::Template,
            shell: InputShell::Always,
            ..with_shell(
                "-0 -k -m -q -r -t -u -v -X --bar --eta --dry-run --keep-order --lb \
                    --line-buffer --linebuffer --null --no-notice --no-run-if-empty --pipe \
                    --progress --tag --ungroup --verbose --will-cite",
                "-a -C -d -j -L -n -N -P --arg-file --colsep --delay --delimiter --halt \
                    --jobs --joblog --max-args --max-procs --results --retries --timeout \
                    --tmpdir",
                0,
            )
        }),
    ),
    (
        "xargs gxargs",
        Wrapper::Xargs(PrefixWrapper {
            flags: "-0 -o -p -r -t -x --null --no-run-if-empty --verbose --exit",
            valued: "-a -d -E -I -J -L -n -P -R -s -S --arg-file --delimiter --max-args --max-chars \
                --max-procs --process-slot-var",
            ..PLAIN
        }),
    ),
    (
        "docker podman nerdctl docker-compose podman-compose",
        subcommands(
            "-c -H -l --config --context --host --log-level",
            &[
                Subcommand { path: "exec", wrapper: CONTAINER },
                Subcommand { path: "run", wrapper: CONTAINER },
                Subcommand { path: "create", wrapper: CONTAINER },
            ],
        ),
    ),
    (
        "kubectl oc",
        subcommands(
            "-n -s --cluster --context --kubeconfig --namespace --server --user",
            &[
                Subcommand { path: "exec", wrapper: CONTAINER },
                Subcommand { path: "run", wrapper: CONTAINER },
                Subcommand { path: "debug", wrapper: CONTAINER },
            ],
        ),
    ),
    (
        "git",
        subcommands(
            GIT_VALUED,
            &[
                after("bisect run", 0),
                Subcommand {
                    path: "submodule foreach",
                    wrapper: PrefixWrapper {
                        flags: "--recursive -q --quiet",
                        body: Body::Script,
                        ..PLAIN
                    },
                },
            ],
        ),
    ),
    ("ip", subcommands("", &[after("netns exec", 1), after("vrf exec", 1)])),
    ("lxc incus direnv aws-vault", subcommands("", &[after("exec", 1)])),
    ("npm bundle rbenv pyenv asdf mise", EXEC),
    ("pnpm yarn", subcommands("", &[after("exec", 0), after("dlx", 0)])),
    (
        "poetry pipenv pdm hatch rye uv pipx conda mamba pixi",
        subcommands(
            "",
            &[Subcommand {
                path: "run",
                wrapper: PrefixWrapper { flags: UV_FLAGS, valued: UV_VALUED, ..PLAIN },
            }],
        ),
    ),
    ("find gfind bfs fd fdfind", Wrapper::Find),
    (
        "sh bash dash ash zsh ksh mksh lksh oksh rbash rksh rzsh fish csh tcsh yash posh hush \
            osh ysh brush",
        Wrapper::Shell,
    ),
    ("trap", Wrapper::Trap),
    (
        "flock watch setpriv systemd-run systemd-inhibit systemd-nspawn machinectl strace \
            ltrace gdb lldb perf valgrind chrt taskset numactl prlimit arch cgexec \
            dbus-run-session dbus-launch ssh-agent xvfb-run rlwrap torsocks torify proxychains \
            proxychains4 firejail bwrap start-stop-daemon daemonize setuidgid softlimit chpst \
            s6-setuidgid entr run-one chronic ts rush gosu su-exec tini dumb-init catchsegv \
            ld.so screen tmux dtach abduco hyperfine cpulimit choom uclampset coresched runcon \
            capsh envdir mosh xterm alacritty kitty foot konsole gnome-terminal watchexec \
            concurrently dotenv dotenvx distrobox toolbox wsl nix",
        Wrapper::AnyArgument,
    ),
    (
        "eval . source alias fc r enable bind complete compgen compopt emulate autoload \
            zmodload sched zle functions coproc hash rehash at batch crontab mapfile readarray \
            setarch nu elvish xonsh",
        Wrapper::Opaque,
    ),
    (
        "declare typeset local readonly export read printf getopts unset let integer float \
            test [ [[ wait vared print set",
        Wrapper::SetsVariables,
    ),
];
