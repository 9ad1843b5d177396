//! A machine on which a page is followed. It has the programs that the pages name, a home of its
//! own, and no coding agent for Angelia: the demo agent answers, also for `claude/sonnet`. The daemon
//! has a free port, which stands for the one in the pages, and so has a server of models.

use std::{
    fmt::Write as _,
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use angelia_testkit::{
    isolated_home::IsolatedHome, model_server::ModelServer, programs::workspace_root,
    real::RealClaude,
};

use crate::page::{Page, Step};

/// The port in the pages.
const PRINTED_ADDRESS: &str = "127.0.0.1:4376";

/// The time limit of a page, in seconds.
const PAGE_TIMEOUT: &str = "240";

/// Starts commands that run until Ctrl-C in the background, and waits until they are ready.
const PRELUDE: &str = r#"
fail() { echo "@@@ $1"; exit 1; }
until_ready() {
    for _ in $(seq 600); do
        if eval "$1"; then return 0; fi
        sleep 0.05
    done
    cat "$2"
    return 1
}
daemon=
start_daemon() {
    if [ -n "$daemon" ]; then kill $daemon; wait $daemon; fi
    "$@" > "$LOGS/serve" 2>&1 &
    daemon=$!
    until_ready "grep -q 'listening on the bus' $LOGS/serve" "$LOGS/serve"
}
start_listener() {
    "$@" > "$LOGS/listen-$4" 2>&1 &
    until_ready "grep -q 'listening as' $LOGS/listen-$4" "$LOGS/listen-$4"
}
start_follower() {
    "$@" > "$LOGS/follow" 2>&1 &
}
trap 'kill $(jobs -p) 2> /dev/null; wait; angelia stop > /dev/null 2>&1; angelia bus stop > /dev/null 2>&1' EXIT
"#;

const CONFIG: &str = "\
profiles:
  demo: {executor: parrot, mode: model}
http:
  model_aliases: {claude/sonnet: demo, claude-sonnet-5: demo}
";

pub(crate) struct Reader {
    place: IsolatedHome,
    address: String,
    /// Stands for the server that a person has started to follow a page about local models.
    models: ModelServer,
}

impl Reader {
    pub(crate) fn new() -> Self {
        let place = IsolatedHome::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let models = ModelServer::start().unwrap();
        let reader = Self { place, address, models };
        fs::create_dir_all(reader.bin()).unwrap();
        fs::create_dir_all(reader.logs()).unwrap();
        let config = format!("listen: {}\n{CONFIG}", reader.address);
        reader.write("~/.angelia/config.yaml", &config);
        reader.install_programs();
        reader.make_repository();
        reader
    }

    fn bin(&self) -> PathBuf {
        self.place.root().join("bin")
    }

    fn logs(&self) -> PathBuf {
        self.place.root().join("logs")
    }

    /// Puts `angelia` and its clients on the search path. Angelia itself does not see the clients:
    /// it would take them for agents that are not logged in.
    fn install_programs(&self) {
        let angelia = self.bin().join("angelia");
        let script = format!(
            "#!/bin/sh\n\
             PATH=/usr/local/bin:/usr/bin:/bin\n\
             unset ANTHROPIC_BASE_URL ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN\n\
             if [ \"$1\" = serve ]; then shift; set -- serve --listen {} \"$@\"; fi\n\
             if [ \"$1 $2\" = 'setup ollama' ]; then set -- \"$@\" --url {}; fi\n\
             exec {} \"$@\"\n",
            self.address,
            self.models.base_url(),
            env!("CARGO_BIN_EXE_angelia")
        );
        fs::write(&angelia, script).unwrap();
        fs::set_permissions(&angelia, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(RealClaude::newest().unwrap().path, self.bin().join("claude")).unwrap();
        symlink(codex(), self.bin().join("codex")).unwrap();
    }

    /// Makes the working directory a repository with a change in it.
    fn make_repository(&self) {
        let script = "git init -q && echo one > README.md && git add . \
                      && git -c user.name=a -c user.email=a@b commit -qm one && echo two >> README.md";
        let made = self.shell().args(["-c", script]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }

    fn write(&self, name: &str, text: &str) {
        let path = match name.strip_prefix("~/") {
            Some(below) => self.place.home().join(below),
            None => self.place.work_dir().join(name),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace(PRINTED_ADDRESS, &self.address)).unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "the test follows what a page tells a person")]
    fn shell(&self) -> Command {
        let python = workspace_root().join("target/python/clients/bin");
        let path =
            format!("{}:{}:/usr/local/bin:/usr/bin:/bin", self.bin().display(), python.display());
        let mut shell = Command::new("/usr/bin/timeout");
        shell
            .args([PAGE_TIMEOUT, "/bin/bash"])
            .env_clear()
            .envs(self.place.environment())
            .env("PATH", path)
            .env("LOGS", self.logs())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("ANTHROPIC_DEFAULT_SONNET_MODEL", "claude-sonnet-5")
            .current_dir(self.place.work_dir())
            .stdin(Stdio::null());
        shell
    }

    /// Does what the page says. One shell types all commands, so that variables stay set.
    pub(crate) fn follow(&self, page: &Page) -> Result<(), String> {
        let mut script = PRELUDE.to_owned();
        let mut expected = Vec::new();
        for (number, step) in page.steps.iter().enumerate() {
            match step {
                Step::Skipped { .. } => {}
                Step::File { name, text } => {
                    let draft = self.place.root().join(format!("file-{number}"));
                    fs::write(&draft, text.replace(PRINTED_ADDRESS, &self.address)).unwrap();
                    let name = name.replace('~', "$HOME");
                    writeln!(script, "mkdir -p \"$(dirname \"{name}\")\"").unwrap();
                    writeln!(script, "cp {} \"{name}\"", draft.display()).unwrap();
                }
                Step::Command { line, command, prints } => {
                    let command = command.replace(PRINTED_ADDRESS, &self.address);
                    let starter = starter(&command);
                    if starter.is_empty() {
                        expected.push((*line, prints));
                    }
                    writeln!(script, "echo '@@@ line {line}'").unwrap();
                    writeln!(script, "{starter}{command}").unwrap();
                    writeln!(script, "[ $? = 0 ] || fail 'line {line} failed'").unwrap();
                }
            }
        }
        let script_path = self.place.root().join("script.sh");
        fs::write(&script_path, script).unwrap();
        let ran = self.shell().arg(&script_path).output().unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        let errors = String::from_utf8_lossy(&ran.stderr);
        let log = fs::read_to_string(self.logs().join("serve")).unwrap_or_default();
        if !ran.status.success() {
            return Err(format!("{}: {output}\n{errors}\n{log}", page.name));
        }
        for (line, prints) in expected {
            let marker = format!("@@@ line {line}\n");
            let printed = output.split(&marker).nth(1).unwrap_or_default();
            let printed = printed.split("@@@ ").next().unwrap_or_default();
            let mut prints = prints.iter().map(|text| text.replace(PRINTED_ADDRESS, &self.address));
            if let Some(text) = prints.find(|text| !printed.contains(text)) {
                return Err(format!("{}:{line}: no `{text}` in:\n{printed}", page.name));
            }
        }
        Ok(())
    }
}

/// Returns what stands before a command that runs until Ctrl-C.
fn starter(command: &str) -> &'static str {
    if command.starts_with("angelia serve") {
        "start_daemon "
    } else if command.starts_with("angelia bus listen") {
        "start_listener "
    } else if command.starts_with("angelia logs -f") {
        "start_follower "
    } else {
        ""
    }
}

fn codex() -> PathBuf {
    let packages = workspace_root().join("target/npm/codex/node_modules");
    let packages = fs::read_dir(packages).into_iter().flatten().flatten();
    let vendored = packages.flat_map(|package| fs::read_dir(package.path().join("vendor")));
    let mut binaries = vendored.flatten().flatten().map(|folder| folder.path().join("bin/codex"));
    binaries.find(|path| Path::is_file(path)).unwrap_or_else(|| panic!("run `cargo xtask setup`"))
}
