//! Starts the commands of a session in its directory, with its environment and in its sandbox. Each
//! command has a mark of its own, so that ending one ends nothing else.

use std::{
    ffi::OsString,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use angelia_core::model::{SessionId, SessionSpec};

use super::tool::CallError;
use crate::{
    host::ExecutorHost,
    native::sandbox::Sandbox,
    process::{
        Child, ProcessLaunch, StopTimeouts, marked_parent, merged_output::merge_stderr,
        session_binding::SessionBinding, spawn,
    },
};

/// Keep programs from asking questions that nobody can see, and from using colours and pagers.
const VARIABLES: [(&str, &str); 5] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Runs commands for one session.
#[derive(Clone, Debug)]
pub struct Shell {
    pub host: ExecutorHost,
    pub session: SessionId,
    pub spec: SessionSpec,
    /// The session's directory as a real path.
    pub cwd: PathBuf,
    pub sandbox: Sandbox,
}

/// A running command.
#[derive(Debug)]
pub(super) struct RunningCommand {
    pub(super) child: Child,
    /// Tells our own programs inside the command which session they work for.
    _binding: SessionBinding,
}

impl Shell {
    /// Starts a script. Its stdout includes its stderr.
    pub(super) async fn start(&self, script: &str) -> Result<RunningCommand, CallError> {
        let launch = self.launch(script)?;
        let binding = self.host.bind_session(&launch.mark, self.session);
        let child = spawn(&launch)
            .await
            .map_err(|error| CallError::new(format!("the command was not started: {error}")))?;
        Ok(RunningCommand { child, _binding: binding })
    }

    fn launch(&self, script: &str) -> Result<ProcessLaunch, CallError> {
        if script.contains('\0') {
            return Err(CallError::new("the command has a NUL byte; write it without"));
        }
        let failure = |error: angelia_core::model::Failure| CallError::new(error.to_string());
        let mark = self.host.fresh_mark().map_err(failure)?;
        let mut env =
            self.host.child_environment(&self.spec, &VARIABLES, &mark).map_err(failure)?;
        if let Some(folder) = &self.sandbox.temporary {
            create_private_folder(folder)?;
            env.insert("TMPDIR".into(), folder.into());
        }
        let bash = self.host.find_program("bash", &env).unwrap_or_else(|| "/bin/sh".into());
        let (program, args) =
            merge_stderr([bash.into_os_string(), OsString::from("-c"), script.into()]);
        let launch = ProcessLaunch {
            program,
            args,
            cwd: self.cwd.clone(),
            env,
            mark,
            ledger: self.host.ledger.clone(),
        };
        Ok(match &self.sandbox.confinement {
            Some(confinement) => confinement.clone().enforce(&self.host.current_exe, launch),
            None => marked_parent::attend(&self.host.current_exe, launch),
        })
    }
}

fn create_private_folder(folder: &Path) -> Result<(), CallError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        CallError::new(format!("the folder {} cannot be created: {error}", folder.display()))
    })
}

/// The stop sequence after an interrupt: all processes are gone within 100 ms.
pub(super) const AT_ONCE: StopTimeouts = StopTimeouts {
    after_eof: Duration::ZERO,
    after_term: Duration::from_millis(20),
    after_kill: Duration::from_secs(5),
    output_drain: Duration::from_millis(10),
    sweep_grace: Duration::ZERO,
};
