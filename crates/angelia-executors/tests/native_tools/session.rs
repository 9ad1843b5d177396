//! A session whose commands run in an isolated home.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{SessionId, SessionSpec},
    permission::PrivateFiles,
    ports::KnownPlaces,
};
use angelia_executors::{
    native::{
        sandbox::{Sandbox, SandboxPlaces, SandboxSettings, plan_sandbox},
        tools::{
            EditStyle, OutputFolder, Shell, Toolkit, ToolkitSetup, Workspace, bash::BashTool,
            job::JobTool, jobs::Jobs,
        },
    },
    parrot,
    process::confinement::LandlockSupport,
};
use rustix::process::Pid;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::isolated_executor::IsolatedExecutor;

/// Longer than any step takes, also on a busy machine; only a broken test waits this long.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct CommandPlace {
    pub(crate) place: IsolatedExecutor,
    pub(crate) root: PathBuf,
    pub(crate) shell: Arc<Shell>,
    pub(crate) output: Arc<OutputFolder>,
    pub(crate) jobs: Arc<Jobs>,
}

impl CommandPlace {
    /// Commands without a sandbox.
    pub(crate) fn new() -> Self {
        Self::with(|_, _| Sandbox { confinement: None, must_ask: None, temporary: None })
    }

    /// Commands in the sandbox of these settings, as far as this system has one.
    pub(crate) fn sandboxed(settings: &SandboxSettings, support: LandlockSupport) -> Self {
        Self::with(|root, cwd| {
            let places = SandboxPlaces {
                cwd,
                user_home: &root.join("home"),
                angelia_home: &root.join("angelia"),
                temporary: &[std::env::temp_dir().canonicalize().unwrap()],
                own_temporary: &root.join("angelia/sessions/1/tmp"),
                own_files: &[root.join("angelia/sessions/1/output")],
                chat_files: &root.join("angelia/sessions/1/output/chat"),
            };
            plan_sandbox(settings, &places, support).unwrap()
        })
    }

    fn with(plan: impl FnOnce(&Path, &Path) -> Sandbox) -> Self {
        let place = IsolatedExecutor::new(&parrot::REGISTRATION);
        let root = place.isolated.root().canonicalize().unwrap();
        let cwd = root.join("work");
        for folder in ["angelia/sessions/1/output/chat", "home/.ssh"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("home/.ssh/id_ed25519"), "s3cret").unwrap();
        fs::write(root.join("angelia/daemon.token"), "s3cret").unwrap();
        let sandbox = plan(&root, &cwd);
        let output = Arc::new(OutputFolder::new(root.join("angelia/sessions/1/output")));
        let shell = Shell {
            host: place.host.clone(),
            session: SessionId::from_uuid(Uuid::from_u128(1)),
            spec: SessionSpec::new("native", cwd.clone()),
            cwd,
            sandbox,
        };
        let jobs = Arc::new(Jobs::new(&place.host.tasks, Arc::clone(&output)));
        Self { place, root, shell: Arc::new(shell), output, jobs }
    }

    pub(crate) fn bash(&self) -> BashTool {
        BashTool::new(Arc::clone(&self.shell), Arc::clone(&self.output), Arc::clone(&self.jobs))
    }

    pub(crate) fn job(&self) -> JobTool {
        JobTool::new(Arc::clone(&self.jobs), self.shell.sandbox.must_ask.clone())
    }

    pub(crate) fn toolkit(&self, edit_style: EditStyle) -> Toolkit {
        let workspace = Workspace::new(&self.shell.cwd, &self.root.join("home")).unwrap();
        Toolkit::new(&ToolkitSetup {
            workspace: Arc::new(workspace),
            private: Arc::new(private_files(&self.root, &self.shell.cwd)),
            shell: Arc::clone(&self.shell),
            output: Arc::clone(&self.output),
            edit_style,
        })
    }
}

pub(crate) fn private_files(root: &Path, cwd: &Path) -> PrivateFiles {
    PrivateFiles {
        session: SessionId::from_uuid(Uuid::from_u128(1)),
        profile: "default".into(),
        cwd: cwd.to_owned(),
        places: KnownPlaces {
            user_home: root.join("home"),
            angelia_home: root.join("angelia"),
            agent_files: Vec::new(),
        },
    }
}

/// Waits until a file has a whole line, and returns it as a pid.
pub(crate) async fn pid_in(path: &Path) -> Pid {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some((line, _)) = text.split_once('\n') {
            return Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        }
        assert!(Instant::now() < deadline, "nothing was written to {}", path.display());
        sleep(Duration::from_millis(5)).await;
    }
}

/// Whether the process runs; a zombie does not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let state = angelia_testkit::process_table::state(pid.as_raw_pid());
    state.is_some_and(|state| !state.starts_with('Z'))
}
