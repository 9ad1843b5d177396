//! The address of the database. A connection is encrypted unless the server is on this machine. Passwords come
//! from outside the configuration, and no message contains one.

use std::{fmt, fs, net::IpAddr, path::Path, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

const DEFAULT_PORT: u16 = 5432;

/// The longest silence of a network before its connection counts as lost.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a database, as the configuration has it, with its password.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) tls: Option<MakeRustlsConnect>,
    shown: Arc<str>,
}

#[derive(Debug, thiserror::Error)]
#[error("the address of the database {problem}")]
pub struct StoreAddressError {
    problem: String,
}

impl StoreAddressError {
    /// Returns the problem without its subject, for a message that names the address.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into() }
    }
}

/// The protection of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Protection {
    /// Encrypted, and the server proves its name; by these certificates or by those of the system.
    Verified {
        roots: Option<String>,
    },
    None,
}

impl PostgresAddress {
    /// Reads `postgres://USER@HOST:PORT/DATABASE?sslmode=…`. With `password`, or with the one that the
    /// file at `passfile` has for this server.
    pub fn parse(
        text: &str,
        password: Option<&str>,
        passfile: Option<&Path>,
    ) -> Result<Self, StoreAddressError> {
        let (mut config, protection) = read(text)?;
        let shown = show(&config);
        if let Some(password) = password {
            config.password(password);
        } else if let Some(path) = passfile
            && let Some(password) = find_password(path, &config)?
        {
            config.password(password);
        }
        let tls = match protection {
            Protection::None => None,
            Protection::Verified { roots } => Some(verified(roots.as_deref())?),
        };
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        config.application_name("angelia");
        // A network that swallows everything is noticed before the patience of writers ends.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_TIMEOUT);
        }
        config.keepalives_idle(TCP_TIMEOUT);
        Ok(Self { config, tls, shown: shown.into() })
    }

    /// Checks an address without opening anything: what a configuration may contain.
    pub fn check(text: &str) -> Result<(), StoreAddressError> {
        read(text).map(drop)
    }
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresAddress({})", self.shown)
    }
}

fn read(text: &str) -> Result<(Config, Protection), StoreAddressError> {
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Err(StoreAddressError::new("must begin with postgres://"));
    }
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => roots = Some(value.to_owned()),
            _ => rest.push(setting),
        }
    }
    let address =
        if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
    // The error of the library may quote the address, and so a password in it.
    let config: Config = address.parse().map_err(|_quotes_it| {
        StoreAddressError::new("cannot be read; write postgres://USER@HOST/DATABASE")
    })?;
    if config.get_password().is_some() {
        return Err(StoreAddressError::new(
            "has a password in it; take it out, and set ANGELIA_STORE_PASSWORD or PGPASSFILE",
        ));
    }
    if config.get_dbname().is_none() {
        return Err(StoreAddressError::new(
            "names no database; write postgres://USER@HOST/DATABASE",
        ));
    }
    if config.get_hosts().is_empty() {
        return Err(StoreAddressError::new("names no host"));
    }
    let is_local = config.get_hosts().iter().all(is_local) && config.get_hostaddrs().is_empty();
    let protection = match mode.as_deref() {
        None if is_local => Protection::None,
        None | Some("verify-full") => Protection::Verified { roots },
        Some("disable") => Protection::None,
        Some(other) => {
            return Err(StoreAddressError::new(format!(
                "has sslmode={other}, which anybody in between can read or change; \
                 use verify-full, or disable on a network that you trust"
            )));
        }
    };
    Ok((config, protection))
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn show(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<_> = hosts.collect();
    let ports = config.get_ports().iter().filter(|port| **port != DEFAULT_PORT);
    let ports: Vec<_> = ports.map(|port| format!(":{port}")).collect();
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().unwrap_or_default();
    format!("postgres://{user}{}{}/{database}", hosts.join(","), ports.join(","))
}

fn verified(roots: Option<&str>) -> Result<MakeRustlsConnect, StoreAddressError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreAddressError::new(format!("cannot be used with TLS: {error}")))?;
    let builder = match roots {
        None => builder.with_platform_verifier().map_err(|error| {
            StoreAddressError::new(format!(
                "needs the certificates that this machine trusts, which cannot be read ({error}); \
                 name a file with sslrootcert=FILE"
            ))
        })?,
        Some(path) => builder.with_root_certificates(read_roots(Path::new(path))?),
    };
    Ok(MakeRustlsConnect::new(builder.with_no_client_auth()))
}

fn read_roots(path: &Path) -> Result<RootCertStore, StoreAddressError> {
    let failed = |why: &dyn fmt::Display| {
        StoreAddressError::new(format!("names the certificates {}: {why}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))? {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(failed(&"there is none in the file"));
    }
    Ok(roots)
}

/// Returns the password that a file in the form of libpq has for this server.
fn find_password(path: &Path, config: &Config) -> Result<Option<String>, StoreAddressError> {
    let failed = |why: &dyn fmt::Display| {
        StoreAddressError::new(format!("needs the password file {}: {why}", path.display()))
    };
    check_private(path).map_err(|why| failed(&why))?;
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT).to_string();
    let database = config.get_dbname().unwrap_or_default();
    let wanted = [&host, &port, database, config.get_user().unwrap_or_default()];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.map(passfile_fields).find_map(|fields| {
        let (password, key) = fields.split_last()?;
        let is_for_us = key.len() == wanted.len()
            && key.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        is_for_us.then(|| password.clone())
    }))
}

/// Splits a line at its colons; a backslash takes the next character as it is.
fn passfile_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        let taken = match char {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(field) = fields.last_mut() {
            field.push(taken);
        }
    }
    fields
}

#[cfg(unix)]
fn check_private(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err("others may read it; run `chmod 600` on it".to_owned());
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_path: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection(address: &str) -> Protection {
        read(address).unwrap().1
    }

    #[test]
    fn only_a_server_on_this_machine_is_reached_without_encryption() {
        let verified = || Protection::Verified { roots: None };
        for (address, expected) in [
            ("postgres://a@db.example/x", verified()),
            ("postgres://a@10.0.0.7/x", verified()),
            ("postgres://a@localhost,db.example/x", verified()),
            ("postgres://a@db.example/x?sslmode=verify-full", verified()),
            ("postgres://a@db.example/x?sslmode=disable", Protection::None),
            ("postgres://a@localhost/x", Protection::None),
            ("postgres://a@127.0.0.1:5433/x", Protection::None),
            ("postgres://a@[::1]/x", Protection::None),
            ("postgres:///x?host=/run/postgresql&user=a", Protection::None),
            ("postgres://a@localhost/x?sslmode=verify-full", verified()),
        ] {
            assert_eq!(protection(address), expected, "{address}");
        }
        let roots = protection("postgres://a@db.example/x?sslrootcert=ca.pem&connect_timeout=3");
        assert_eq!(roots, Protection::Verified { roots: Some("ca.pem".into()) });
    }

    #[test]
    fn what_cannot_be_used_is_explained_without_a_password() {
        for (address, expected) in [
            ("mysql://a@h/x", "must begin with postgres://"),
            ("postgres://a:hunter2@h/x", "set ANGELIA_STORE_PASSWORD"),
            ("postgres://a:hunter2@h:port/x", "cannot be read"),
            ("postgres://a@h", "names no database"),
            ("postgres:///x", "names no host"),
            ("postgres://a@h/x?sslmode=prefer", "use verify-full"),
            ("postgres://a@h/x?sslmode=require", "use verify-full"),
            ("postgres://a@h/x?unheard=of", "cannot be read"),
        ] {
            let error = PostgresAddress::check(address).unwrap_err().to_string();
            assert!(error.contains(expected), "{address}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_password_comes_from_outside_and_is_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        let lines =
            "# mine\nother:*:*:*:no\n*:5433:x:a:no\nlocalhost:5432:x:a:hun\\:ter2\n*:*:*:*:no\n";
        fs::write(&path, lines).unwrap();
        let address = "postgres://a@localhost/x";
        let open = PostgresAddress::parse(address, None, Some(&path)).unwrap_err().to_string();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert!(open.contains("chmod 600"), "{open}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let read = PostgresAddress::parse(address, None, Some(&path)).unwrap();
        assert_eq!(read.config.get_password(), Some(&b"hun:ter2"[..]));
        let given = PostgresAddress::parse(address, Some("secret"), Some(&path)).unwrap();
        assert_eq!(given.config.get_password(), Some(&b"secret"[..]));
        assert_eq!(given.to_string(), "postgres://a@localhost/x");
        assert!(!format!("{given:?}").contains("secret"));
    }
}
