//! Installs a version of an agent: npm downloads it into a temporary folder, its checksums are compared, its
//! program is started once, and only then is the folder renamed.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use angelia_core::model::SessionSpec;
use angelia_executors::selftest::private_home::remove_folder;
use serde::Deserialize;
use uuid::Uuid;

use super::{
    npm::{Npm, PublishedVersion},
    unknown_agent,
};
use crate::{
    assemble::{App, StandaloneExecutors},
    cli::{
        error::{CommandError, Exit},
        print,
        run::signals::StopSignals,
    },
    config::{AgentVersion, installable},
};

/// Prefix of the names of folders that are not installed versions.
pub(super) const TEMPORARY_PREFIX: &str = ".new-";

/// A temporary folder that has not changed for this long is abandoned.
const ABANDONED_AFTER: Duration = Duration::from_hours(2);

pub(super) async fn run(app: &App, text: &str) -> Result<Exit, CommandError> {
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    let Some((_, program)) = installable().find(|(kind, _)| kind.name == name) else {
        return Err(unknown_agent(text));
    };
    app.home.prepare()?;
    let npm = Npm::find(app)?;
    let mut stop = StopSignals::listen().map_err(CommandError::internal)?;
    let installing = async {
        // A version that is already installed can be used without a network.
        let known = version.and_then(|version| AgentVersion::new(name, version));
        if let Some(agent) = known.filter(|agent| agent.launcher(&app.home).exists()) {
            return Ok::<_, CommandError>((agent, true));
        }
        print::note(&format!("asking npm for {text} …"));
        let published = npm.published_version(program.package(), version).await?;
        let agent =
            AgentVersion::new(name, &published.version).ok_or_else(|| unknown_agent(text))?;
        if agent.launcher(&app.home).exists() {
            return Ok::<_, CommandError>((agent, true));
        }
        install(app, &npm, &agent, &published).await?;
        Ok((agent, false))
    };
    let (agent, was_there) = tokio::select! {
        installed = installing => installed?,
        _ = stop.next() => {
            return Err(CommandError::new(Exit::Interrupted, "interrupted; nothing is left behind"));
        }
    };
    let done = if was_there { "is already installed" } else { "is installed" };
    print::line(&format!("{agent} {done} in {}", agent.folder(&app.home).display()))?;
    let name = agent.registration.name;
    print::note(&format!(
        "  use it: `binary: {agent}` in `executors.{name}` or in a profile of config.yaml\n  \
         try it: `angelia selftest {name}`"
    ));
    Ok(Exit::Done)
}

async fn install(
    app: &App,
    npm: &Npm,
    agent: &AgentVersion,
    published: &PublishedVersion,
) -> Result<(), CommandError> {
    let parent = app.home.installed_agents_dir();
    let draft = Draft::create(&parent).map_err(|error| folder_error(&parent, &error))?;
    print::note(&format!("downloading {agent} …"));
    npm.install(&draft.0, agent.program.package(), &agent.version).await?;
    let count = verify(&draft.0, agent, published)?;
    let word = if count == 1 { "package" } else { "packages" };
    print::note(&format!("verified the sha512 of {count} {word}"));
    check_program(app, agent, &draft.0).await?;
    let folder = agent.folder(&app.home);
    match fs::rename(&draft.0, &folder) {
        Ok(()) => Ok(()),
        // Another process has installed the same version in the meantime.
        Err(_) if agent.launcher(&app.home).exists() => Ok(()),
        Err(error) => Err(folder_error(&folder, &error)),
    }
}

/// A folder that is removed on drop, unless it has been renamed.
struct Draft(PathBuf);

impl Draft {
    fn create(parent: &Path) -> std::io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        remove_abandoned(parent);
        let path = parent.join(format!("{TEMPORARY_PREFIX}{}", Uuid::new_v4().simple()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let draft = Self(path);
        // Otherwise npm would look for a project in the parent folders.
        fs::write(draft.0.join("package.json"), "{\"private\":true}\n")?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        remove_folder(&self.0);
    }
}

/// Removes the folders that killed processes left behind.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let age = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if is_temporary && age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}

/// Checks the checksums in npm's lock file. While unpacking, npm compares the archive of each package with
/// its checksum and writes the checksum into the lock file. Fails unless every installed package has a
/// checksum, and that of the agent's own package is the published one. Returns the number of installed
/// packages.
fn verify(
    folder: &Path,
    agent: &AgentVersion,
    published: &PublishedVersion,
) -> Result<usize, CommandError> {
    #[derive(Deserialize)]
    struct Lock {
        packages: BTreeMap<String, LockedPackage>,
    }
    #[derive(Deserialize)]
    struct LockedPackage {
        integrity: Option<String>,
    }
    let wrong = |what: String| {
        CommandError::new(Exit::Failed, what)
            .with_hint("it was not installed; check `npm config get registry`")
    };
    let lock = fs::read(folder.join("package-lock.json")).ok();
    let lock: Option<Lock> = lock.and_then(|lock| serde_json::from_slice(&lock).ok());
    let lock = lock.ok_or_else(|| wrong(format!("npm wrote no lock file for {agent}")))?;
    // The entry without a name is the folder itself. The lock file also names packages for other platforms,
    // which npm has not downloaded.
    let is_there = |place: &str| !place.is_empty() && folder.join(place).is_dir();
    let packages: Vec<_> = lock.packages.iter().filter(|(place, _)| is_there(place)).collect();
    for (place, package) in &packages {
        let is_hashed =
            package.integrity.as_deref().is_some_and(|hash| hash.starts_with("sha512-"));
        if !is_hashed {
            return Err(wrong(format!("{place} of {agent} has no sha512")));
        }
    }
    let own = lock.packages.get(&format!("node_modules/{}", agent.program.package()));
    if own.and_then(|own| own.integrity.as_ref()) != Some(&published.integrity) {
        return Err(wrong(format!("{agent} is not the package that was published")));
    }
    Ok(packages.len())
}

/// Fails unless the program starts and reports the expected version.
async fn check_program(app: &App, agent: &AgentVersion, folder: &Path) -> Result<(), CommandError> {
    let executors = StandaloneExecutors::start(app, "agents")?;
    let name = agent.registration.name;
    let mut spec = SessionSpec::new(name, app.home.work_dir());
    spec.binary = Some(agent.program.launcher_in(folder));
    let mut found = None;
    for executor in executors.all().iter().filter(|executor| executor.name() == name) {
        found = Some(executor.inspect(&spec).await);
    }
    executors.stop().await;
    let Some(health) = found else {
        return Err(CommandError::internal(format!("there is no executor {name}")));
    };
    match (health.installation, health.problem) {
        (Some(installed), _) if *installed.version == *agent.version => Ok(()),
        (Some(installed), _) => Err(CommandError::new(
            Exit::Failed,
            format!("the program of {agent} says that it is {}", installed.version),
        )),
        (None, Some(problem)) => Err(problem.into()),
        (None, None) => Err(CommandError::new(Exit::Failed, format!("{agent} has no program"))),
    }
}

fn folder_error(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
        .with_hint("check the space on the disk and the permissions of the folder")
}
