//! Tests that `install.sh` installs only files that it has verified.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use tempfile::TempDir;

use super::{payload, put, release, target};
use crate::{
    dist::{
        archive,
        sums::{self, SigningKey},
    },
    program::{command, find_on_path},
};

/// The programs that the script may use; it gets no others.
const TOOLS: [&str; 21] = [
    "sh",
    "uname",
    "mktemp",
    "rm",
    "rmdir",
    "cp",
    "mv",
    "mkdir",
    "dirname",
    "find",
    "sed",
    "sort",
    "grep",
    "tail",
    "cut",
    "gzip",
    "tar",
    "sha256sum",
    "cat",
    "curl",
    "wget",
];

/// A release in a folder, and a machine to install it on.
struct Installation {
    folder: TempDir,
}

impl Installation {
    fn new() -> Self {
        let new = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["dist", "home", "tools"] {
            fs::create_dir(new.folder.path().join(folder)).unwrap();
        }
        for tool in TOOLS {
            new.add_tool(tool);
        }
        new.write_release("");
        new
    }

    fn dist(&self) -> PathBuf {
        self.folder.path().join("dist")
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("home/.local")
    }

    fn add_tool(&self, name: &str) {
        if let Some(path) = find_on_path(name) {
            let link = self.folder.path().join("tools").join(name);
            std::os::unix::fs::symlink(path, link).unwrap();
        }
    }

    fn archive(&self) -> PathBuf {
        self.dist().join(archive::file_name(&release(), target()))
    }

    /// Writes the archive, the sums, and the script with a key.
    fn write_release(&self, key: &str) {
        let packed = archive::pack(&release(), target(), &payload()).unwrap();
        fs::write(self.archive(), packed).unwrap();
        let script = fs::read_to_string(crate::root().join("packaging/install.sh")).unwrap();
        put(&self.dist(), "install.sh", &sums::with_public_key(&script, key).unwrap());
        sums::write(&self.dist()).unwrap();
    }

    /// Signs the release with a new key, and returns the key that the script carries.
    fn sign(&self) -> SigningKey {
        let key = SigningKey::make(&self.folder.path().join("key")).unwrap();
        fs::remove_file(self.dist().join("SHA256SUMS")).unwrap();
        self.write_release(&key.public().unwrap());
        key.sign(&self.dist(), "9.9.9").unwrap();
        self.add_tool("minisign");
        key
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let mut script = command("/bin/sh");
        script
            .arg(self.dist().join("install.sh"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("PATH", self.folder.path().join("tools"))
            .current_dir(self.folder.path());
        script
    }

    fn install(&self, arguments: &[&str]) -> Output {
        self.script(arguments).output().unwrap()
    }

    /// Installs, and returns the script's output.
    fn succeed(&self, arguments: &[&str]) -> String {
        let ran = self.install(arguments);
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// Tries to install, which must fail and install nothing, and returns the script's output.
    fn fail(&self, arguments: &[&str]) -> String {
        let ran = self.install(arguments);
        assert!(!ran.status.success(), "{ran:?}");
        assert!(!self.prefix().join("bin/angelia").exists(), "something was installed");
        String::from_utf8_lossy(&ran.stderr).into_owned()
    }
}

/// Serves the files of a folder over HTTP, and returns the address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let (status, body) = match fs::read(folder.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let length = body.len();
            write!(stream, "HTTP/1.0 {status}\r\nContent-Length: {length}\r\n\r\n").unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    address
}

fn files_below(folder: &Path) -> Vec<String> {
    let find = ["-type", "f", "-o", "-type", "l"];
    let found = command("find").arg(folder).args(find).output().unwrap();
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn it_installs_from_its_own_folder_and_says_what_it_checked() {
    let machine = Installation::new();
    let said = machine.succeed(&[]);
    assert!(said.contains("Installed angelia 9.9.9 into"), "{said}");
    assert!(said.contains("Checked its SHA-256 sum;"), "{said}");
    assert!(said.contains("export PATH="), "{said}");
    let unit = machine.prefix().join("share/systemd/user/angelia.service");
    let unit = fs::read_to_string(unit).unwrap();
    assert!(unit.contains(&format!("\"{}/bin/angelia\"", machine.prefix().display())), "{unit}");
    let alias = machine.prefix().join("libexec/angelia/hermes/hermes-busd");
    assert!(alias.canonicalize().unwrap().ends_with("bin/angelia"));
}

#[test]
fn a_prefix_may_be_relative_and_have_odd_characters() {
    let machine = Installation::new();
    let ran = machine.script(&[]).env("PREFIX", "my tools & more/").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let prefix = machine.folder.path().join("my tools & more");
    let unit = fs::read_to_string(prefix.join("share/systemd/user/angelia.service")).unwrap();
    let start = format!("ExecStart=\"{}/bin/angelia\" serve\n", prefix.display());
    assert!(unit.contains(&start), "{unit}");
}

#[test]
fn it_installs_from_a_file_address_and_over_http_from_this_machine() {
    let machine = Installation::new();
    let dist = machine.dist();
    let base = format!("file://{}", dist.display());
    for base in [base, serve(dist.clone()), dist.display().to_string()] {
        machine.succeed(&[&base]);
        machine.succeed(&["--uninstall"]);
    }
}

#[test]
fn a_changed_archive_is_refused() {
    let machine = Installation::new();
    let mut bytes = fs::read(machine.archive()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(machine.archive(), bytes).unwrap();
    let said = machine.fail(&[]);
    assert!(said.contains("does not have the sum"), "{said}");
}

#[test]
fn what_is_not_there_is_named() {
    let machine = Installation::new();
    let said = machine.fail(&["/nowhere"]);
    assert!(said.contains("cannot get SHA256SUMS from /nowhere"), "{said}");
    let said = machine.fail(&[&serve(machine.folder.path().join("home"))]);
    assert!(said.contains("cannot get SHA256SUMS"), "{said}");
    put(&machine.dist(), "SHA256SUMS", "00  angelia-9.9.9-riscv64gc-unknown-linux-musl.tar.gz\n");
    let said = machine.fail(&[]);
    assert!(said.contains("has no archive for"), "{said}");
    fs::remove_file(machine.dist().join("SHA256SUMS")).unwrap();
    let said = machine.fail(&[]);
    assert!(said.contains("there is no release next to this script"), "{said}");
    let said = machine.fail(&["--uninstall"]);
    assert!(said.contains("was not installed"), "{said}");
}

#[test]
fn plain_http_is_only_for_this_machine() {
    let machine = Installation::new();
    for base in
        ["http://example.invalid", "http://127.0.0.1.example.invalid/", "ftp://example.invalid"]
    {
        let said = machine.fail(&[base]);
        assert!(said.contains("download"), "{base}: {said}");
    }
}

#[test]
fn a_new_version_removes_what_only_the_old_one_had_and_uninstall_leaves_nothing() {
    let machine = Installation::new();
    machine.succeed(&[]);
    let manifest = machine.prefix().join("share/angelia/installed-files");
    put(&machine.prefix(), "share/man/man1/angelia-old.1", "old");
    put(&machine.prefix(), "bin/mine", "not Angelia's");
    let listed = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{listed}share/man/man1/angelia-old.1\n")).unwrap();
    machine.succeed(&[]);
    assert!(!machine.prefix().join("share/man/man1/angelia-old.1").exists());
    machine.succeed(&["--uninstall"]);
    let left = files_below(&machine.prefix());
    assert_eq!(left, [machine.prefix().join("bin/mine").display().to_string()]);
}

#[test]
fn real_minisign_decides_where_it_is_installed() {
    let machine = Installation::new();
    machine.sign();
    let said = machine.succeed(&[]);
    assert!(said.contains("Checked its SHA-256 sum and the minisign signature."), "{said}");
    machine.succeed(&["--uninstall"]);

    // The sums and the archive match each other, but they are signed with another key.
    let forged = SigningKey::make(&machine.folder.path().join("other-key")).unwrap();
    forged.sign(&machine.dist(), "9.9.9").unwrap();
    let said = machine.fail(&[]);
    assert!(said.contains("does not match the key"), "{said}");
    fs::remove_file(machine.dist().join("SHA256SUMS.minisig")).unwrap();
    let said = machine.fail(&[]);
    assert!(said.contains("has no SHA256SUMS.minisig"), "{said}");
}

#[test]
fn real_shellcheck_finds_nothing_in_the_script() {
    let ran = command("shellcheck").arg("packaging/install.sh").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}
