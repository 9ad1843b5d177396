//! `angelia codex enable|disable|status` on a fake Codex that only reports its version and login.

use std::{fs, os::unix::fs::symlink, path::Path, thread};

use crate::{
    daemon_fixture::{config, machine_with_fake_codex},
    machine::{Machine, mode},
};

const OURS: &str = "mcp_servers:\n  docs: {command: docs, args: [-x], env: {KEY: sesame}, timeout: 5}\n\
    \x20 far: {type: sse, url: 'http://127.0.0.1:1'}\n";

const THEIRS: &str = "# mine\nmodel = \"m\"\n\n[mcp_servers.own]\ncommand = \"own\"\n";

fn prepared(theirs: &str) -> Machine {
    let machine = machine_with_fake_codex("0.166.0");
    machine.configure(OURS);
    write(&machine, theirs);
    machine
}

fn write(machine: &Machine, text: &str) {
    let path = config(machine);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(machine: &Machine) -> String {
    fs::read_to_string(config(machine)).unwrap()
}

/// Asserts that the folder contains only the file itself.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn enabled_and_disabled() {
    let machine = prepared(THEIRS);
    let path = config(&machine);
    let shown = machine.angelia(&["codex", "enable", "--dry-run"]);
    shown.assert_code(1).assert_stdout("+[mcp_servers.docs] # angelia codex");
    shown.assert_stdout("+default_permissions = \":workspace\"").assert_stdout(" model = \"m\"");
    assert!(!shown.stdout.contains("sesame"), "{shown:?}");
    assert_eq!(read(&machine), THEIRS, "nothing is written");

    // A server that Codex cannot have is named in a warning, and the others are still written.
    let done = machine.angelia(&["codex", "enable"]);
    done.assert_code(1).assert_stdout("enabled in").assert_stderr("mcp_servers.far: not written");
    done.assert_stderr("mcp_servers.docs: Codex does not accept timeout");
    let text = read(&machine);
    for part in [
        "[mcp_servers.angelia] # angelia codex\n",
        "args = [\"mcp\"]\n",
        "env = { KEY = \"sesame\" }\n",
        "default_permissions = \":workspace\" # angelia codex\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(names(path.parent().unwrap()), ["config.toml"]);
    machine.angelia(&["codex", "on"]).assert_code(1).assert_stdout("nothing to change");
    assert_eq!(read(&machine), text);

    let shown = machine.angelia(&["codex", "disable", "--dry-run"]);
    shown.assert_code(0).assert_stdout("-[mcp_servers.docs] # angelia codex");
    assert_eq!(read(&machine), text);
    machine.angelia(&["codex", "off"]).assert_code(0).assert_stdout("disabled in");
    assert_eq!(read(&machine), THEIRS);
    machine.angelia(&["codex", "disable"]).assert_code(0).assert_stdout("nothing to change");
}

#[test]
fn parts_can_be_left_out() {
    let machine = prepared(THEIRS);
    machine.configure("");
    let all = ["--no-permissions", "--no-plugins", "--no-tools"];
    let none = [&["codex", "enable"], &all[..]].concat();
    machine.angelia(&none).assert_code(0).assert_stdout("nothing to change");
    machine.angelia(&["codex", "enable", "--no-permissions"]).assert_code(0);
    assert!(!read(&machine).contains("default_permissions"));
    machine.angelia(&["codex", "status"]).assert_code(0).assert_stdout("up to date");

    // The vendor's installed plugins are enabled, unless the user has disabled them.
    for name in ["notion", "slack"] {
        let plugin = format!("plugins/cache/openai-curated/{name}/1/.codex-plugin");
        let folder = config(&machine).with_file_name(plugin);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("plugin.json"), "{}").unwrap();
    }
    let own = "[plugins.\"slack@openai-curated\"]\nenabled = false\n";
    write(&machine, own);
    machine.angelia(&["codex", "enable"]).assert_code(0).assert_stderr("slack@openai-curated");
    let text = read(&machine);
    assert!(text.contains("[plugins.\"notion@openai-curated\"] # angelia codex\nenabled = true\n"));
    assert_eq!(text.matches("slack").count(), 1, "{text}");
    machine.angelia(&["codex", "off"]).assert_code(0);
    assert_eq!(read(&machine), own);

    // Failing to list the plugins does not stop the command.
    let cache = config(&machine).with_file_name("plugins");
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "").unwrap();
    machine.angelia(&["codex", "enable"]).assert_code(1).assert_stderr("plugins: cannot be listed");
    assert!(read(&machine).contains("[mcp_servers.angelia]"));
}

#[test]
fn where_there_was_no_file_there_is_none_again() {
    let machine = machine_with_fake_codex("0.166.0");
    machine.angelia(&["codex", "disable"]).assert_code(0).assert_stdout("nothing to change");
    assert!(!machine.place.home().join(".codex").exists());
    machine.angelia(&["codex", "enable", "--dry-run"]).assert_code(0);
    assert!(!machine.place.home().join(".codex").exists());
    machine.angelia(&["codex", "enable"]).assert_code(0);
    let path = config(&machine);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    machine.angelia(&["codex", "disable"]).assert_code(0);
    assert!(!path.exists());
    for text in ["", "a = 1", "a = 1\r\n[t]\r\n", "[t] # no end"] {
        write(&machine, text);
        machine.angelia(&["codex", "enable"]).assert_code(0);
        assert_ne!(read(&machine), text);
        machine.angelia(&["codex", "disable"]).assert_code(0);
        assert_eq!(read(&machine), text);
    }
    // Settings that were added in the meantime stay.
    machine.angelia(&["codex", "enable"]).assert_code(0);
    write(&machine, &format!("{}\n[mine]\nx = 1\n", read(&machine)));
    machine.angelia(&["codex", "disable"]).assert_code(0);
    assert_eq!(read(&machine), "[t] # no end\n\n[mine]\nx = 1\n");
}

#[test]
fn another_folder_and_a_link_to_another_file() {
    let mut machine = prepared(THEIRS);
    machine.configure("");
    let other = machine.place.root().join("other");
    machine.set("CODEX_HOME", &other);
    let refused = machine.angelia(&["codex", "enable"]);
    refused.assert_code(1).assert_stderr("other");
    fs::create_dir(&other).unwrap();
    let real = machine.place.root().join("dots.toml");
    fs::write(&real, "a = 1\n").unwrap();
    symlink(&real, other.join("config.toml")).unwrap();
    machine.set("ANGELIA_HOME", machine.home());
    let file = machine.place.root().join("ours.yaml");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    machine.angelia(&["--config", file, "codex", "enable"]).assert_code(0);
    assert!(other.join("config.toml").symlink_metadata().unwrap().is_symlink());
    let text = fs::read_to_string(&real).unwrap();
    // The configuration file and home are passed to the server that Codex starts.
    assert!(text.contains(&format!("args = [\"--config\", \"{file}\", \"mcp\"]")), "{text}");
    assert!(text.contains("env = { ANGELIA_HOME = "), "{text}");
    machine.angelia(&["codex", "disable"]).assert_code(0);
    assert_eq!(fs::read_to_string(&real).unwrap(), "a = 1\n");
    assert_eq!(read(&machine), THEIRS, "the usual place was left alone");
}

#[test]
fn what_is_broken_is_named_and_left_alone() {
    let machine = prepared("a = 1\nb = = 2\n");
    for command in ["enable", "disable", "status"] {
        let said = machine.angelia(&["codex", command]);
        said.assert_code(78).assert_stderr("config.toml: line 2").assert_stderr("hint: correct it");
    }
    assert_eq!(read(&machine), "a = 1\nb = = 2\n");
    fs::write(config(&machine), b"a = \"\xff\"\n").unwrap();
    machine.angelia(&["codex", "enable"]).assert_code(78).assert_stderr("not UTF-8 text");
}

#[test]
fn a_named_pipe_is_not_waited_for() {
    let machine = prepared("");
    let path = config(&machine);
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    for verb in ["enable", "disable", "status"] {
        let began = std::time::Instant::now();
        let ran = machine.angelia(&["codex", verb]);
        ran.assert_code(78).assert_stderr("is not a regular file");
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{verb}");
    }
}

#[test]
fn a_codex_that_cannot_be_used_is_refused() {
    let machine = machine_with_fake_codex("0.124.9");
    write(&machine, THEIRS);
    machine.angelia(&["codex", "enable"]).assert_code(69).assert_stderr("too old");
    machine.angelia(&["codex", "status"]).assert_code(1).assert_stdout("too old");
    let nothing = Machine::new();
    write(&nothing, THEIRS);
    nothing.angelia(&["codex", "enable"]).assert_code(69).assert_stderr("not installed");
    nothing.angelia(&["codex", "status"]).assert_code(1).assert_stdout("not enabled");
    for machine in [machine, nothing] {
        assert_eq!(read(&machine), THEIRS);
        machine.angelia(&["codex", "enable", "--dry-run"]).assert_code(0);
        machine.angelia(&["codex", "disable"]).assert_code(0);
    }
}

#[test]
fn the_state_is_told() {
    let machine = prepared("sandbox_mode = \"read-only\"\n");
    let before = machine.angelia(&["codex", "status"]);
    before
        .assert_code(1)
        .assert_stdout("0.166.0 at")
        .assert_stdout("logged in (subscription)")
        .assert_stdout("not enabled");
    before.assert_stdout("missing  mcp_servers.docs").assert_stdout("yours    default_permissions");
    machine.angelia(&["codex", "enable"]).assert_code(1);
    let after = machine.angelia(&["codex", "status"]);
    after
        .assert_code(0)
        .assert_stdout("enabled, up to date")
        .assert_stdout("enabled  mcp_servers.angelia");
    machine.configure("mcp_servers: {other: {command: other}}\n");
    let later = machine.angelia(&["codex", "status", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&later.assert_code(1).stdout).unwrap();
    assert_eq!((&told["enabled"], &told["current"]), (&true.into(), &false.into()), "{told:#}");
    assert_eq!(told["version"], "0.166.0");
    assert!(told["parts"].to_string().contains("mcp_servers.other"), "{told:#}");
}

#[test]
fn several_at_once_do_not_disturb_each_other() {
    let machine = prepared(THEIRS);
    machine.configure("mcp_servers: {docs: {command: docs}}\n");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| machine.angelia(&["codex", "enable"]).assert_code(0).status);
        }
    });
    let text = read(&machine);
    assert_eq!(text.matches("[mcp_servers.docs]").count(), 1, "{text}");
    thread::scope(|scope| {
        for command in ["enable", "disable", "enable", "disable"] {
            let machine = &machine;
            scope.spawn(move || machine.angelia(&["codex", command]).assert_code(0).status);
        }
    });
    machine.angelia(&["codex", "disable"]).assert_code(0);
    assert_eq!(read(&machine), THEIRS);
    assert_eq!(names(config(&machine).parent().unwrap()), ["config.toml"]);
}

#[test]
fn an_agent_cannot_change_it() {
    let mut machine = prepared(THEIRS);
    machine.set("ANGELIA_AGENT", "home:owner:agent");
    for command in ["enable", "disable"] {
        machine
            .angelia(&["codex", command])
            .assert_code(1)
            .assert_stderr("an agent's process cannot");
    }
    assert_eq!(read(&machine), THEIRS);
}
