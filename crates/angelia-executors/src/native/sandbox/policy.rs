//! The files that commands may read and write. Landlock rules can only grant access: a file that is
//! not granted cannot be opened, but nothing below a granted folder can be excluded. So secrets are
//! protected by granting no folder that contains them. If such a folder must be granted, a person
//! is asked about every command.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{NativeSettings, SandboxMode};

use super::toolchains::TOOLCHAINS;
use crate::process::confinement::{Confinement, LandlockSupport};

/// The sandbox settings of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    pub mode: SandboxMode,
    /// `sandbox_read`, as absolute paths.
    pub read: Vec<PathBuf>,
    /// `sandbox_write`, as absolute paths.
    pub write: Vec<PathBuf>,
    /// `network: on`: commands may use TCP.
    pub network: bool,
}

impl From<&NativeSettings> for SandboxSettings {
    fn from(settings: &NativeSettings) -> Self {
        Self {
            mode: settings.sandbox,
            read: settings.sandbox_read.clone(),
            write: settings.sandbox_write.clone(),
            network: settings.network,
        }
    }
}

/// The folders that the policy deals with, as real paths.
#[derive(Clone, Copy, Debug)]
pub struct SandboxPlaces<'a> {
    /// The session's directory.
    pub cwd: &'a Path,
    pub user_home: &'a Path,
    /// `$ANGELIA_HOME`
    pub angelia_home: &'a Path,
    /// The system's folders for temporary files.
    pub temporary: &'a [PathBuf],
    /// The session's own folder for temporary files, used if the system's folders cannot be
    /// granted.
    pub own_temporary: &'a Path,
    /// The folders in `$ANGELIA_HOME` that commands may read: the session's inbox and output.
    pub own_files: &'a [PathBuf],
    /// The folder with files for the session's chat, which commands may write.
    pub chat_files: &'a Path,
}

/// The limits of a session's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// `None` if there are no limits.
    pub confinement: Option<Confinement>,
    /// Why a person must be asked about every command, at every level of permission.
    pub must_ask: Option<Arc<str>>,
    /// The value of `TMPDIR`, if it must differ from the owner's.
    pub temporary: Option<PathBuf>,
}

/// Why no command may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "`sandbox: landlock` is set, but this system has no Landlock (Linux 6.2 and newer have it); \
         set `sandbox: auto` to be asked about every command, or `off` to run without a sandbox"
    )]
    NoLandlock,
    #[error(
        "`sandbox: landlock` is set, but Landlock of this kernel cannot refuse TCP (6.7 and newer \
         can); set `network: on` to allow it, or `sandbox: auto` to be asked about every command"
    )]
    NoTcpRules,
}

/// Decides how commands are run.
pub fn plan_sandbox(
    settings: &SandboxSettings,
    places: &SandboxPlaces<'_>,
    support: LandlockSupport,
) -> Result<Sandbox, SandboxError> {
    let without = |must_ask: Option<&str>| Sandbox {
        confinement: None,
        must_ask: must_ask.map(Into::into),
        temporary: None,
    };
    match (settings.mode, support.files) {
        (SandboxMode::Off, _) => return Ok(without(None)),
        (SandboxMode::Landlock, false) => return Err(SandboxError::NoLandlock),
        (SandboxMode::Auto, false) => {
            return Ok(without(Some(
                "this system has no Landlock, so commands run without a sandbox \
                 (`sandbox: off` accepts that)",
            )));
        }
        (SandboxMode::Auto | SandboxMode::Landlock, true) => {}
    }
    let cannot_refuse_tcp = !settings.network && !support.tcp;
    if cannot_refuse_tcp && settings.mode == SandboxMode::Landlock {
        return Err(SandboxError::NoTcpRules);
    }
    let mut sandbox = confined(settings, places, settings.network || cannot_refuse_tcp);
    if cannot_refuse_tcp {
        let reason = "Landlock of this kernel cannot refuse TCP (`network: on` accepts that)";
        sandbox.must_ask.get_or_insert(reason.into());
    }
    Ok(sandbox)
}

fn confined(settings: &SandboxSettings, places: &SandboxPlaces<'_>, tcp: bool) -> Sandbox {
    let hidden = [places.user_home, places.angelia_home];
    let mut confinement = Confinement::for_commands(&hidden, tcp);
    for toolchain in TOOLCHAINS {
        let folder = places.user_home.join(toolchain);
        if !places.angelia_home.starts_with(&folder) {
            confinement.allow_read(folder);
        }
    }
    for path in places.own_files.iter().chain(&settings.read) {
        confinement.allow_read(path);
    }
    confinement.allow_write(places.cwd);
    confinement.allow_write(places.chat_files);
    for path in &settings.write {
        confinement.allow_write(path);
    }
    let is_open = |folder: &&PathBuf| !hidden.iter().any(|path| path.starts_with(folder));
    let shared: Vec<&PathBuf> = places.temporary.iter().filter(is_open).collect();
    for folder in &shared {
        confinement.allow_write(*folder);
    }
    let own = shared.is_empty().then(|| places.own_temporary.to_owned());
    if let Some(folder) = &own {
        confinement.allow_write(folder);
    }
    let must_ask = exposed_place(settings, places).map(Into::into);
    Sandbox { confinement: Some(confinement), must_ask, temporary: own }
}

/// Returns which granted folder contains files that commands must not read, if there is one.
fn exposed_place(settings: &SandboxSettings, places: &SandboxPlaces<'_>) -> Option<String> {
    let cwd = ("the working directory", places.cwd);
    let read = settings.read.iter().map(|path| ("`sandbox_read`", &**path));
    let write = settings.write.iter().map(|path| ("`sandbox_write`", &**path));
    let mut granted = std::iter::once(cwd).chain(read).chain(write);
    granted.find_map(|(what, folder)| {
        let hidden =
            [("your home folder", places.user_home), ("$ANGELIA_HOME", places.angelia_home)];
        let inside = hidden.iter().find(|(_, path)| path.starts_with(folder));
        inside.map(|(secret, _)| {
            let folder = folder.display();
            format!(
                "{what} ({folder}) contains {secret}, so the sandbox cannot protect what is there"
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: LandlockSupport = LandlockSupport { files: true, tcp: true, scopes: true };

    fn plan(
        settings: &SandboxSettings,
        cwd: &str,
        support: LandlockSupport,
    ) -> Result<Sandbox, SandboxError> {
        let places = SandboxPlaces {
            cwd: Path::new(cwd),
            user_home: Path::new("/home/owner"),
            angelia_home: Path::new("/home/owner/.angelia"),
            temporary: &["/tmp".into()],
            own_temporary: Path::new("/home/owner/.angelia/sessions/1/tmp"),
            own_files: &["/home/owner/.angelia/sessions/1/output".into()],
            chat_files: Path::new("/home/owner/.angelia/sessions/1/output/chat"),
        };
        plan_sandbox(settings, &places, support)
    }

    fn mode(mode: SandboxMode) -> SandboxSettings {
        SandboxSettings { mode, ..SandboxSettings::default() }
    }

    #[test]
    fn the_mode_decides_what_happens_without_landlock() {
        let none = LandlockSupport::default();
        let cwd = "/home/owner/project";
        let auto = plan(&mode(SandboxMode::Auto), cwd, none).unwrap();
        assert!(auto.confinement.is_none() && auto.must_ask.unwrap().contains("no Landlock"));
        assert_eq!(plan(&mode(SandboxMode::Landlock), cwd, none), Err(SandboxError::NoLandlock));
        let off = plan(&mode(SandboxMode::Off), cwd, ALL).unwrap();
        assert_eq!((off.confinement, off.must_ask), (None, None));
        for mode_of in [SandboxMode::Auto, SandboxMode::Landlock] {
            let sandbox = plan(&mode(mode_of), cwd, ALL).unwrap();
            assert!(sandbox.confinement.is_some());
            assert_eq!((sandbox.must_ask, sandbox.temporary), (None, None));
        }
    }

    #[test]
    fn a_kernel_that_cannot_refuse_tcp_is_said() {
        let old = LandlockSupport { tcp: false, ..ALL };
        let cwd = "/home/owner/project";
        let auto = plan(&mode(SandboxMode::Auto), cwd, old).unwrap();
        assert!(auto.confinement.is_some() && auto.must_ask.unwrap().contains("TCP"));
        assert_eq!(plan(&mode(SandboxMode::Landlock), cwd, old), Err(SandboxError::NoTcpRules));
        let open = SandboxSettings { network: true, ..mode(SandboxMode::Landlock) };
        assert_eq!(plan(&open, cwd, old).unwrap().must_ask, None);
    }

    #[test]
    fn a_folder_that_contains_secrets_makes_every_command_a_question() {
        for cwd in ["/", "/home", "/home/owner", "/home/owner/.angelia"] {
            let sandbox = plan(&mode(SandboxMode::Auto), cwd, ALL).unwrap();
            let reason = sandbox.must_ask.unwrap();
            assert!(reason.contains("the working directory") && reason.contains(cwd), "{reason}");
        }
        for cwd in ["/home/owner/project", "/home/owner/.angelia/work/1", "/srv", "/home/owner2"] {
            assert_eq!(plan(&mode(SandboxMode::Auto), cwd, ALL).unwrap().must_ask, None, "{cwd}");
        }
        let wide = SandboxSettings { read: vec!["/home".into()], ..SandboxSettings::default() };
        let reason = plan(&wide, "/srv", ALL).unwrap().must_ask.unwrap();
        assert!(reason.contains("`sandbox_read` (/home)"), "{reason}");
    }

    #[test]
    fn a_folder_for_temporary_files_with_the_home_in_it_is_replaced() {
        let places = SandboxPlaces {
            cwd: Path::new("/srv"),
            user_home: Path::new("/scratch/owner"),
            angelia_home: Path::new("/scratch/angelia"),
            temporary: &["/scratch".into()],
            own_temporary: Path::new("/scratch/angelia/sessions/1/tmp"),
            own_files: &[],
            chat_files: Path::new("/scratch/angelia/sessions/1/output/chat"),
        };
        let sandbox = plan_sandbox(&SandboxSettings::default(), &places, ALL).unwrap();
        assert_eq!(sandbox.temporary.unwrap(), Path::new("/scratch/angelia/sessions/1/tmp"));
        assert_eq!(sandbox.must_ask, None);
    }
}
