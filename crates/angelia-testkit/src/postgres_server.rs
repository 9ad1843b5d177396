//! A real Postgres server, as `cargo xtask setup` installs it, with private data in a temporary folder
//! and a Unix socket as its only door.
//!
//! One server serves all tests of a process; each test takes a database of its own. `initdb` runs
//! once per build folder, and every server starts on a copy of its result.

use std::{
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    postgres_query::{self, Row},
    programs,
    real::{platform, require_installed},
};

/// The owner of every database.
pub const USER: &str = "angelia";

/// Postgres refuses to run as root, so it runs as this user then.
const NOBODY: u32 = 65_534;

/// A server answers within a second on a quiet machine.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// A running server. Dropping it ends its process.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    /// The port of a server that also listens on loopback, with TLS.
    port: Option<u16>,
    child: Mutex<Option<ServerProcess>>,
}

/// The process of a server, and one that ends it when the process of the test is gone.
#[derive(Debug)]
struct ServerProcess {
    server: Child,
    /// It waits for the end of its input, which nobody writes to.
    watcher: Child,
}

impl ServerProcess {
    fn new(mut server: Child) -> Result<Self> {
        let script = "read -r line; kill -QUIT \"$1\"";
        let started = shell().args(["-c", script, "sh", &server.id().to_string()]).spawn();
        match started {
            Ok(watcher) => Ok(Self { server, watcher }),
            Err(error) => {
                server.kill()?;
                server.wait()?;
                Err(error).context("cannot start a shell")
            }
        }
    }

    /// Ends the server with a signal, and waits for it.
    fn end(mut self, signal: Signal) -> io::Result<()> {
        // First the watcher: the number of the process may be given to another one.
        self.watcher.kill()?;
        self.watcher.wait()?;
        if let Some(pid) = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw) {
            let _ended_already = rustix::process::kill_process(pid, signal);
        }
        // A killed postmaster that nobody reaps counts as running for the next one.
        self.server.wait().map(drop)
    }
}

static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());

impl PostgresServer {
    /// Returns the server of this process. It ends when nobody holds it any more.
    pub fn shared() -> Result<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    /// Starts a server of its own, for a test that kills it.
    pub fn start() -> Result<Self> {
        let server = Self::prepare(None)?;
        server.restart()?;
        Ok(server)
    }

    /// Starts a server that can be reached at `localhost`, with the certificate of
    /// `fixtures/postgres-tls`, by those who know the password of the user.
    pub fn start_with_tls(password: &str) -> Result<Self> {
        // Another program may take the port in between; then the server does not start.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Self::prepare(Some(port))?;
        let data = server.folder.path().join("data");
        for file in ["server.pem", "server.key"] {
            let target = data.join(file);
            fs::copy(tls_fixture(file), &target)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600))?;
            give_away(&target)?;
        }
        let rules = "local all all trust\nhostssl all all all scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), rules)?;
        server.restart()?;
        server.query("postgres", &format!("ALTER USER {USER} PASSWORD '{password}'"))?;
        Ok(server)
    }

    /// Returns the port of a server that was [started with TLS](Self::start_with_tls).
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    fn prepare(port: Option<u16>) -> Result<Self> {
        let group = format!("postgres/node_modules/postgres-{}/native/bin", platform());
        let postgres = require_installed(&format!("{group}/postgres"))?;
        let programs = postgres.parent().context("a program is in a folder")?.to_owned();
        let folder = tempfile::Builder::new().prefix("angelia-pg-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        give_away(folder.path())?;
        copy(&template(&programs)?, &folder.path().join("data"))?;
        Ok(Self { folder, programs, port, child: Mutex::default() })
    }

    /// Starts the server again after [`kill`](Self::kill), and waits until it answers.
    pub fn restart(&self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let earlier = self.log().len();
            self.spawn()?;
            let Err(error) = self.wait_until_ready(deadline) else { return Ok(()) };
            let log = self.log().split_off(earlier);
            // Processes of a killed server notice its end a moment later.
            if !log.contains("still in use") || Instant::now() > deadline {
                bail!("Postgres does not answer ({error:#}); its log:\n{log}");
            }
            self.kill()?;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn spawn(&self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = as_nobody(&self.programs.join("postgres"));
        // Without TCP, two servers on one machine never meet.
        let doors = match self.port {
            None => vec!["listen_addresses=".to_owned()],
            Some(port) => vec![
                "listen_addresses=127.0.0.1".to_owned(),
                format!("port={port}"),
                "ssl=on".to_owned(),
                "ssl_cert_file=server.pem".to_owned(),
                "ssl_key_file=server.key".to_owned(),
            ],
        };
        for setting in doors {
            command.args(["-c", &setting]);
        }
        let child = command
            .args(["-c", "shared_buffers=16MB", "-c", "max_connections=60", "-D"])
            .arg(self.folder.path().join("data"))
            .arg("-k")
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start Postgres")?;
        *self.child() = Some(ServerProcess::new(child)?);
        Ok(())
    }

    fn wait_until_ready(&self, deadline: Instant) -> Result<()> {
        loop {
            let Err(error) = self.query("postgres", "SELECT 1") else { return Ok(()) };
            let ended = match self.child().as_mut() {
                Some(process) => process.server.try_wait()?,
                None => bail!("Postgres does not run"),
            };
            if ended.is_some() || Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Ends the server with `kill -9`, as a power failure of its machine would.
    pub fn kill(&self) -> Result<()> {
        if let Some(process) = self.child().take() {
            process.end(Signal::KILL)?;
        }
        Ok(())
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Option<ServerProcess>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the folder of the server's socket.
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Creates an empty database and returns its name.
    pub fn create_database(&self) -> Result<String> {
        let name = format!("test_{}", Uuid::new_v4().simple());
        self.query("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// Returns the address of a database, as it is written in a configuration.
    pub fn address_of(&self, database: &str) -> String {
        address(self.socket_folder(), database)
    }

    /// Runs statements in a database and returns the rows of all of them.
    pub fn query(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        let socket = match self.port {
            None => socket_path(self.socket_folder()),
            Some(port) => self.socket_folder().join(format!(".s.PGSQL.{port}")),
        };
        postgres_query::query(&socket, USER, database, sql)
    }

    /// Waits until a query returns this value in its only column.
    pub fn wait_for(&self, database: &str, sql: &str, value: &str) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let rows = self.query(database, sql)?;
            let found = rows.first().and_then(|row| row.first().cloned()).flatten();
            if found.as_deref() == Some(value) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "`{sql}` is {found:?}, not {value:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(process) = self.child().take() {
            // Immediate shutdown: the data goes with the folder.
            let _ended_already = process.end(Signal::QUIT);
        }
    }
}

/// Returns the address of a database behind the socket in `folder`.
pub fn address(folder: &Path, database: &str) -> String {
    format!("postgres:///{database}?host={}&user={USER}", folder.display())
}

/// Returns the path of the socket in its folder; clients know the name.
pub fn socket_path(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.5432")
}

/// Returns a file of the certificates that tests use.
pub fn tls_fixture(file: &str) -> PathBuf {
    programs::workspace_root().join("fixtures/postgres-tls").join(file)
}

/// Returns the data of a fresh server, which is made once.
fn template(programs: &Path) -> Result<PathBuf> {
    let folder = programs::workspace_root().join("target/postgres");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    // The version of the package and the user are part of the name: both change what is inside.
    let package = fs::metadata(programs.join("initdb"))?;
    let age = package.modified()?.duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let name = format!("data-{age}-{}", rustix::process::getuid().as_raw());
    let template = folder.join(&name);
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if template.is_dir() {
        return Ok(template);
    }
    let parent = tempfile::Builder::new().prefix("initdb-").tempdir_in(&folder)?;
    give_away(parent.path())?;
    let data = parent.path().join("data");
    let made = as_nobody(&programs.join("initdb"))
        .args(["--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C"])
        .args(["--wal-segsize=1", "-D"])
        .arg(&data)
        .stdin(Stdio::null())
        .output()
        .context("cannot start initdb")?;
    ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    fs::rename(&data, &template)?;
    Ok(template)
}

#[expect(clippy::disallowed_methods, reason = "starting the server is this module's purpose")]
fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[expect(clippy::disallowed_methods, reason = "the server must not outlive the test")]
fn shell() -> Command {
    let mut command = Command::new("/bin/sh");
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// Gives a file to the user that Postgres runs as.
fn give_away(path: &Path) -> io::Result<()> {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}

/// Copies a folder with its modes, for the user that Postgres runs as.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        fs::copy(from, to)?;
        return give_away(to);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    give_away(to)
}
