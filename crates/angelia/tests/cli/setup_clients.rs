//! `angelia env` and `angelia setup CLIENT`: a client gets a key of its own, and its files come back
//! to the byte.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    http,
    machine::{Machine, until},
};

const CLIENTS: [(&str, &str); 8] = [
    ("claude", ".angelia/clients/claude.json"),
    ("codex", ".codex/config.toml"),
    ("aider", ".aider.conf.yml"),
    ("llm", ".config/io.datasette.llm/extra-openai-models.yaml"),
    ("open-webui", ".angelia/clients/open-webui.env"),
    ("zed", ".config/zed/settings.json"),
    ("neovim", ".config/nvim/lua/angelia.lua"),
    ("jetbrains", ".jetbrains/acp.json"),
];

const AIDER: &str = "# mine\ndark-mode: true";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the key in a text.
fn key_in(text: &str) -> String {
    let (_, rest) = text.split_once("angelia-").unwrap();
    format!("angelia-{}", &rest[..64])
}

fn keys(machine: &Machine) -> String {
    machine.angelia(&["keys", "list"]).stdout
}

/// Every file below a folder with its content, except Angelia's own.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with(".angelia") {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn every_client_is_shown_written_once_and_restored() {
    for (client, file) in CLIENTS {
        let machine = Machine::new();
        let home = machine.place.home();
        let shown = machine.angelia(&["setup", client]);
        shown.assert_code(0).assert_stderr("--write");
        assert!(!home.join(file).exists(), "without a flag nothing is written");
        assert!(keys(&machine).is_empty());

        machine.angelia(&["setup", client, "--write"]).assert_code(0).assert_stdout("written");
        let written = files(&home);
        assert!(home.join(file).exists(), "{client} {written:?}");
        let again = machine.angelia(&["setup", client, "--write"]);
        again.assert_code(0).assert_stdout("nothing to change");
        assert!(!again.stdout.contains("written"), "{again:?}");
        assert_eq!(files(&home), written);

        let undone = machine.angelia(&["setup", client, "--undo"]);
        undone.assert_code(0).assert_stdout("removed");
        assert_eq!(files(&home), []);
        assert!(!home.join(file).exists() && keys(&machine).is_empty());
        machine
            .angelia(&["setup", client, "--undo"])
            .assert_code(0)
            .assert_stdout("nothing to undo");
    }
}

#[test]
fn an_existing_file_keeps_its_bytes_and_permissions() {
    let machine = Machine::new();
    let file = machine.place.home().join(".aider.conf.yml");
    fs::write(&file, AIDER).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    machine.angelia(&["setup", "aider", "--write"]).assert_code(0);
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(mode(&file), 0o600, "a key is not for others");
    assert!(written.starts_with(AIDER) && written.contains("openai/claude/sonnet"), "{written}");
    assert!(keys(&machine).contains("setup-aider  everything; models only"), "{}", keys(&machine));

    // Another model changes the file, not the key.
    machine.angelia(&["setup", "aider", "--write", "-m", "codex/default"]).assert_code(0);
    let changed = fs::read_to_string(&file).unwrap();
    assert_eq!(key_in(&changed), key_in(&written));
    assert!(changed.contains("\"openai/codex/default\""), "{changed}");
    // A key that was revoked is made again.
    machine.angelia(&["keys", "revoke", "setup-aider"]).assert_code(0);
    machine.angelia(&["setup", "aider", "--write"]).assert_code(0);
    assert_ne!(key_in(&fs::read_to_string(&file).unwrap()), key_in(&written));

    machine.angelia(&["setup", "aider", "--undo"]).assert_code(0).assert_stdout("revoked");
    assert_eq!(fs::read_to_string(&file).unwrap(), AIDER);
    assert_eq!(mode(&file), 0o644);
    let audit = machine.angelia(&["audit"]).stdout;
    assert!(audit.contains("setup aider in") && audit.contains("setup-aider"), "{audit}");
}

#[test]
fn the_daemon_accepts_the_key_at_once_and_only_for_models() {
    let machine = Machine::new();
    machine.configure("listen: 127.0.0.1:0\n");
    machine.angelia(&["setup", "llm", "--write"]).assert_code(69).assert_stderr("angelia start");
    let serving = machine.serve();
    let file = machine.place.home().join(CLIENTS[3].1);
    machine.angelia(&["setup", "llm", "--write"]).assert_code(0);
    let text = fs::read_to_string(&file).unwrap();
    let address = fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    assert!(text.contains(&format!("http://{}/v1", address.trim())), "{text}");
    let bearer = format!("authorization: Bearer {}\r\n", key_in(&text));
    assert_eq!(http::get_over_tcp(&machine, "/v1/models", &bearer).status, 200);
    assert_eq!(http::get_over_tcp(&machine, "/api/sessions", &bearer).status, 403);
    let token = fs::read_to_string(machine.home().join("token")).unwrap();
    assert!(!text.contains(token.trim()));

    machine.angelia(&["setup", "llm", "--undo"]).assert_code(0);
    until("the key is refused", || {
        http::get_over_tcp(&machine, "/v1/models", &bearer).status == 401
    });
    serving.stop().assert_code(0);
}

#[test]
fn a_file_in_a_repository_is_never_written() {
    let machine = Machine::with_shell();
    let home = machine.place.home();
    let git = "git -c user.name=a -c user.email=a@b";
    let script = format!(
        "cd \"$HOME\" && mkdir dots && cd dots && git init -q && echo 'vim: true' > tracked.yml \
         && {git} add . && {git} commit -qm one && echo ignored.yml > .gitignore"
    );
    assert!(machine.shell(&script).status.success());
    let link = home.join(".aider.conf.yml");
    for name in ["tracked.yml", "new.yml"] {
        let _none = fs::remove_file(&link);
        symlink(home.join("dots").join(name), &link).unwrap();
        let refused = machine.angelia(&["setup", "aider", "--write"]);
        refused.assert_code(1).assert_stderr("is in a git repository").assert_stderr(name);
        assert!(keys(&machine).is_empty(), "no key is made");
    }
    assert_eq!(fs::read_to_string(home.join("dots/tracked.yml")).unwrap(), "vim: true\n");
    fs::remove_file(&link).unwrap();
    symlink(home.join("dots/ignored.yml"), &link).unwrap();
    machine.angelia(&["setup", "aider", "--write"]).assert_code(0);
    assert!(home.join("dots/ignored.yml").exists());
}

#[test]
fn settings_of_the_owners_stay_and_no_key_is_made() {
    let machine = Machine::new();
    let home = machine.place.home();
    let own = [
        (".aider.conf.yml", "aider", "model: gpt-5\n"),
        (".codex/config.toml", "codex", "[model_providers.angelia]\nname = \"mine\"\n"),
        (".jetbrains/acp.json", "jetbrains", "{\"agent_servers\": {\"Angelia\": {}}}"),
        (".config/nvim/lua/angelia.lua", "neovim", "return {}\n"),
    ];
    for (file, client, text) in own {
        let file = home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        let refused = machine.angelia(&["setup", client, "--write"]);
        refused.assert_code(1).assert_stderr("left alone").assert_stderr("hint:");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        machine
            .angelia(&["setup", client, "--undo"])
            .assert_code(0)
            .assert_stdout("nothing to undo");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    assert!(keys(&machine).is_empty());
    assert!(!machine.home().join("clients").exists());
}

#[test]
fn an_agent_cannot_connect_anything() {
    let mut machine = Machine::new();
    machine.set("ANGELIA_AGENT", "home:owner:agent");
    machine.angelia(&["setup", "aider"]).assert_code(0);
    for flag in ["--write", "--undo"] {
        machine
            .angelia(&["setup", "aider", flag])
            .assert_code(1)
            .assert_stderr("an agent's process");
    }
}

/// Whenever the process is killed, `--undo` cleans up.
#[test]
fn a_killed_write_can_be_undone() {
    let machine = Machine::new();
    let home = machine.place.home();
    let file = home.join(".aider.conf.yml");
    let mut was_written = 0;
    for attempt in 0..12 {
        fs::write(&file, AIDER).unwrap();
        let running = machine.start(&["setup", "aider", "--write"]);
        let pause = Duration::from_millis(attempt * 8);
        let ended = std::time::Instant::now() + pause;
        until("it is time", || std::time::Instant::now() >= ended);
        drop(running);
        was_written += usize::from(!keys(&machine).is_empty());
        machine.angelia(&["setup", "aider", "--undo"]).assert_code(0);
        assert_eq!(files(&home), [(file.clone(), AIDER.to_owned())]);
        assert!(keys(&machine).is_empty());
    }
    // A draft with a key in it, left by a process that was killed just before the end.
    fs::write(home.join(".aider.conf.yml.angelia-1"), "x").unwrap();
    fs::write(home.join("..aider.conf.yml.angelia-1"), "x").unwrap();
    machine.angelia(&["keys", "add", "setup-aider"]).assert_code(0);
    machine.angelia(&["setup", "aider", "--undo"]).assert_code(0).assert_stdout("revoked");
    assert!(!home.join("..aider.conf.yml.angelia-1").exists());
    eprintln!("{was_written} of 12 had made a key");
}

#[test]
fn a_shell_reads_what_env_prints() {
    let mut machine = Machine::with_shell();
    let home = machine.place.home().join("o'neill $HOME");
    machine.set("ANGELIA_HOME", home.clone());
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("token"), "the-token\n").unwrap();
    let printed = machine.angelia(&["env"]);
    printed.assert_code(0).assert_stderr("angelia start");
    assert!(!printed.stdout.contains("the-token"), "{printed:?}");
    let script = |tool: &str| {
        format!(
            "eval \"$(\"$ANGELIA\" env {tool} 2> /dev/null)\" && \
             echo \"$ANTHROPIC_BASE_URL $ANTHROPIC_API_KEY $ANTHROPIC_AUTH_TOKEN $OPENAI_BASE_URL $OPENAI_API_KEY\""
        )
    };
    let both = "http://127.0.0.1:4376 the-token  http://127.0.0.1:4376/v1 the-token\n";
    assert_eq!(machine.shell(&script("")).stdout, both);
    machine.set("ANTHROPIC_API_KEY", "another");
    assert_eq!(machine.shell(&script("claude")).stdout, "http://127.0.0.1:4376  the-token  \n");
    machine.angelia(&["env", "zed"]).assert_code(2);
    machine.set("SHELL", "/usr/bin/fish");
    machine.angelia(&["env", "openai"]).assert_stdout("set -gx OPENAI_API_KEY (cat '");
}
