//! `angelia agents`: versions of an agent that the real npm installs from a registry on loopback, and
//! profiles that pin them.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::machine::{Machine, ProgramOutput, until};

const PACKAGE: &str = "@anthropic-ai/claude-code";

/// The registry's reaction to a request for an archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Archives {
    Sent,
    /// Another content than the checksum is of.
    Changed,
    /// The request is not answered.
    Held,
}

/// An npm registry with packages that were packed here.
struct Registry {
    address: String,
    state: Arc<Mutex<RegistryState>>,
}

struct RegistryState {
    /// The descriptions, by the package's name.
    packages: BTreeMap<String, Value>,
    /// The files, by the end of their address.
    files: BTreeMap<String, Vec<u8>>,
    archives: Archives,
    held: Vec<TcpStream>,
}

impl Registry {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(RegistryState {
            packages: BTreeMap::new(),
            files: BTreeMap::new(),
            archives: Archives::Sent,
            held: Vec::new(),
        }));
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that leaves is no error.
                let _left = serve(stream, &served);
            }
        });
        Self { address, state }
    }

    fn set_archives(&self, archives: Archives) {
        self.state.lock().unwrap().archives = archives;
    }

    fn has_held_a_request(&self) -> bool {
        !self.state.lock().unwrap().held.is_empty()
    }

    /// Packs a folder with the real npm and publishes it here as the newest version.
    fn publish(&self, machine: &Machine, folder: &Path) {
        let packed = machine
            .program("npm")
            .args(["pack", "--json", "--ignore-scripts", folder.to_str().unwrap()])
            // Otherwise the archives would be in the cache, and nothing would be downloaded.
            .env("npm_config_cache", machine.place.root().join("publisher"))
            .output()
            .unwrap();
        assert!(packed.status.success(), "{packed:?}");
        let packed: Value = serde_json::from_slice(&packed.stdout).unwrap();
        let file = packed[0]["filename"].as_str().unwrap().to_owned();
        let bytes = fs::read(machine.work().join(&file)).unwrap();
        let manifest = fs::read_to_string(folder.join("package.json")).unwrap();
        let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
        manifest["dist"] = json!({"integrity": packed[0]["integrity"],
            "tarball": format!("{}/files/{file}", self.address)});
        manifest["hasInstallScript"] = manifest["scripts"].is_object().into();
        let (name, version) = (manifest["name"].clone(), manifest["version"].clone());
        let (name, version) = (name.as_str().unwrap(), version.as_str().unwrap());
        let mut state = self.state.lock().unwrap();
        state.files.insert(file, bytes);
        let package =
            state.packages.entry(name.to_owned()).or_insert_with(|| json!({"name": name}));
        package["dist-tags"] = json!({"latest": version});
        package["versions"][version] = manifest;
    }
}

fn serve(stream: TcpStream, state: &Mutex<RegistryState>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default().replace("%2f", "/").replace("%40", "@");
    let mut state = state.lock().unwrap();
    let (status, body) = if let Some(file) = path.strip_prefix("/files/") {
        let mut body = state.files.get(file).cloned().unwrap_or_default();
        match state.archives {
            Archives::Sent => {}
            Archives::Changed => body.push(0),
            Archives::Held => {
                state.held.push(stream);
                return Ok(());
            }
        }
        ("200 OK", body)
    } else {
        match state.packages.get(path.trim_start_matches('/')) {
            Some(package) => ("200 OK", package.to_string().into_bytes()),
            None => ("404 Not Found", b"{}".to_vec()),
        }
    };
    drop(state);
    let mut stream = stream;
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
    stream.write_all(&body)
}

/// A machine with npm, and a registry that has two versions.
struct VersionLab {
    machine: Machine,
    registry: Registry,
}

const OLD: &str = "2.1.197";
const NEW: &str = "2.1.325";

impl VersionLab {
    fn new() -> Self {
        let mut machine = Machine::with_shell();
        let registry = Registry::start();
        machine.set("npm_config_registry", format!("{}/", registry.address));
        machine.set("npm_config_fetch_retries", "0");
        machine.set("npm_config_update_notifier", "false");
        let lab = Self { machine, registry };
        lab.publish(&json!({"name": PACKAGE, "version": OLD, "bin": {"claude": "cli.js"}}));
        let part = "@anthropic-ai/claude-code-part";
        lab.publish(&json!({"name": part, "version": NEW}));
        // npm does not download what is for another platform.
        let foreign = "@anthropic-ai/claude-code-foreign";
        lab.publish(&json!({"name": foreign, "version": NEW, "os": ["aix"]}));
        lab.publish(&json!({"name": PACKAGE, "version": NEW, "bin": {"claude": "cli.js"},
            "optionalDependencies": {part: NEW, foreign: NEW},
            "scripts": {"postinstall": "touch script-has-run"}}));
        lab
    }

    /// Publishes a package whose program says its version and nothing else.
    fn publish(&self, manifest: &Value) {
        let version = manifest["version"].as_str().unwrap();
        let name = format!("{}-{version}", manifest["name"].as_str().unwrap().replace('/', "-"));
        let folder = self.machine.place.root().join("packages").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("package.json"), manifest.to_string()).unwrap();
        let script = format!("#!/usr/bin/env node\nconsole.log('{version} (Claude Code)')\n");
        fs::write(folder.join("cli.js"), script).unwrap();
        fs::set_permissions(folder.join("cli.js"), fs::Permissions::from_mode(0o755)).unwrap();
        self.registry.publish(&self.machine, &folder);
    }

    fn agents(&self, arguments: &[&str]) -> ProgramOutput {
        self.machine.angelia(&[&["agents"], arguments].concat())
    }

    fn list(&self) -> Vec<Value> {
        let listed = self.agents(&["list", "--json"]);
        listed.assert_code(0);
        listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the names in the folder of installed versions.
    fn folders(&self) -> Vec<String> {
        let entries = self.machine.home().join("agents/npm").read_dir();
        let names = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn versions_are_installed_beside_each_other_and_pinned() {
    let lab = VersionLab::new();
    let ran = lab.agents(&["install", "claude"]);
    ran.assert_code(0)
        .assert_stdout("claude@2.1.325 is installed in")
        .assert_stderr("verified the sha512 of 2 packages");
    lab.agents(&["install", "claude@2.1.197"])
        .assert_code(0)
        .assert_stderr("verified the sha512 of 1 package");
    assert_eq!(lab.folders(), ["claude@2.1.197", "claude@2.1.325"]);
    let package = lab.machine.home().join("agents/npm/claude@2.1.325/node_modules").join(PACKAGE);
    assert!(package.join("cli.js").exists() && !package.join("script-has-run").exists());
    lab.agents(&["install", "claude@2.1.197"]).assert_code(0).assert_stdout("already installed");
    lab.agents(&["install", "claude"]).assert_code(0).assert_stdout("already installed");

    lab.machine.configure(
        "executors: {claude: {binary: claude@2.1.325}}\n\
         profiles: {old: {executor: claude, binary: claude@2.1.197}, new: {executor: claude}}\n",
    );
    let list = lab.list();
    let of = |version: &str| list.iter().find(|agent| agent["version"] == version).unwrap();
    assert_eq!(of("2.1.197")["profiles"], json!(["old"]));
    let new = of("2.1.325");
    assert_eq!((&new["source"], &new["profiles"]), (&json!("angelia"), &json!(["default", "new"])));
    let folder = lab.machine.home().join("agents/npm/claude@2.1.325");
    assert!(new["path"].as_str().unwrap().starts_with(folder.to_str().unwrap()), "{new}");
    lab.machine.angelia(&["doctor"]).assert_stdout("agents/npm/claude@2.1.197/node_modules");
    let shown = lab.agents(&["list"]);
    shown.assert_code(0).assert_stdout("NAME").assert_stdout("angelia");

    lab.agents(&["remove", "claude@2.1.197"]).assert_code(1).assert_stderr("is used by: old");
    lab.machine.configure("profiles: {old: {executor: claude, binary: claude@2.1.198}}\n");
    lab.agents(&["remove", "claude@2.1.197"]).assert_code(0).assert_stdout("removed");
    assert_eq!(lab.folders(), ["claude@2.1.325"]);
    let missing = ["run", "-p", "old", "hello"];
    lab.machine
        .angelia(&missing)
        .assert_code(69)
        .assert_stderr("Claude Code 2.1.198 is not installed")
        .assert_stderr("angelia agents install claude@2.1.198");
    lab.agents(&["remove", "claude@2.1.198"]).assert_code(1).assert_stderr("is not installed");
}

#[test]
fn what_cannot_be_installed_leaves_nothing() {
    let mut lab = VersionLab::new();
    lab.agents(&["install", "claude@9.9.9"])
        .assert_code(1)
        .assert_stderr("npm has no @anthropic-ai/claude-code@9.9.9");
    lab.agents(&["install", "parrot"]).assert_code(2).assert_stderr("claude, codex");
    lab.registry.set_archives(Archives::Changed);
    let changed = lab.agents(&["install", "claude@2.1.197"]);
    changed.assert_code(1).assert_stderr("not what its publisher");
    assert_eq!(lab.folders(), Vec::<String>::new());

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    lab.machine.set("npm_config_registry", format!("http://{closed}/"));
    let unreachable = lab.agents(&["install", "claude"]);
    unreachable.assert_code(75).assert_stderr("cannot be reached");
    lab.machine.set("PATH", lab.machine.place.root().join("bin"));
    lab.agents(&["install", "claude"]).assert_code(69).assert_stderr("npm is not installed");
    assert_eq!(lab.folders(), Vec::<String>::new());
}

#[test]
fn an_interrupt_leaves_nothing_half_installed() {
    let lab = VersionLab::new();
    lab.registry.set_archives(Archives::Held);
    let running = lab.machine.start(&["agents", "install", "claude@2.1.325"]);
    until("npm downloads", || lab.registry.has_held_a_request());
    assert_eq!(lab.folders().len(), 1, "it works in a folder of its own");
    running.signal(Signal::INT);
    running.wait().assert_code(130).assert_stderr("nothing is left behind");
    assert_eq!(lab.folders(), Vec::<String>::new());
}
