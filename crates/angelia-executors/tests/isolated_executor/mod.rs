//! An executor in an isolated home, for the tests of all executors. Must be included by path under
//! this name, at the crate root; contains no tests.
//!
//! Another crate builds our own program, which confines agents. A script stands in for it: it runs
//! the test's own executable with its ignored test [`the_helper`], which is the same code.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::Arc,
};

use angelia_core::{ports::Executor, redact::Redactor, task::TaskGroup};
use angelia_executors::{
    DelegationSlot, ExecutorHost, Registration,
    process::{HomeId, OwnerId, hidden_subcommand},
};
use angelia_testkit::{clock::SystemClock, isolated_home::IsolatedHome};
use uuid::Uuid;

/// Variables that must not reach a child, even if our own environment has them.
const NOT_FOR_CHILDREN: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDECODE",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "SECRET_OF_OURS",
];

/// An isolated home, and an executor with the host that the binary would pass to it.
pub(crate) struct IsolatedExecutor {
    pub(crate) isolated: IsolatedHome,
    pub(crate) host: ExecutorHost,
    pub(crate) executor: Arc<dyn Executor>,
    /// The prefix of its processes' marks.
    pub(crate) mark: String,
}

impl IsolatedExecutor {
    pub(crate) fn new(registration: &Registration) -> Self {
        Self::with(registration, |_, _| {})
    }

    /// Like [`Self::new`], with a host that `change` has modified.
    pub(crate) fn with(
        registration: &Registration,
        change: impl FnOnce(&IsolatedHome, &mut ExecutorHost),
    ) -> Self {
        let isolated = IsolatedHome::new().unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            isolated.environment().into_iter().collect();
        for name in NOT_FOR_CHILDREN {
            environment.insert(name.into(), "must-not-leak".into());
        }
        let mut host = ExecutorHost {
            environment: Arc::new(environment),
            user_home: isolated.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: isolated.root().join("angelia/work"),
            ledger: isolated.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: TaskGroup::new(),
            clock: Arc::new(SystemClock),
            current_exe: helper_program(&isolated),
            prices: Arc::default(),
            providers: Arc::default(),
            delegation: DelegationSlot::default(),
            keep_warm: false,
            wire_log: None,
        };
        change(&isolated, &mut host);
        Self {
            isolated,
            executor: (registration.build)(host.clone()),
            mark: format!("{}:{}:", host.home_id, host.owner_id),
            host,
        }
    }
}

const HELPER_ARGUMENTS: &str = "ANGELIA_TEST_HELPER_ARGUMENTS";

/// Confines itself and becomes the agent. Descriptor 3 is the agent's stdout, because the test
/// harness writes to stdout, which is discarded. The arguments are those after the test's name,
/// which the harness ignores.
#[test]
#[ignore = "not a test: the program that confines agents"]
fn the_helper() {
    #[expect(clippy::disallowed_methods, reason = "how the script passes the arguments on")]
    let Ok(file) = std::env::var(HELPER_ARGUMENTS) else {
        return;
    };
    let arguments = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    let mut arguments = arguments.split_terminator('\0').map(OsString::from);
    assert_eq!(arguments.next().unwrap(), hidden_subcommand::NAME);
    let output = File::options().write(true).open("/dev/fd/3").unwrap();
    rustix::stdio::dup2_stdout(&output).unwrap();
    let _failed = hidden_subcommand::main(arguments);
    std::process::exit(126);
}

/// Returns a helper that confines nothing, as on a kernel without Landlock.
pub(crate) fn helper_without_landlock(place: &IsolatedHome) -> PathBuf {
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";
    write_script(place.root().join("angelia-plain-helper"), script)
}

fn helper_program(place: &IsolatedHome) -> PathBuf {
    // The arguments contain spaces and empty strings, so they travel in a file.
    let script = format!(
        "#!/bin/sh\nexport {HELPER_ARGUMENTS}='{}'/arguments-$$\n\
         for argument in \"$@\"; do printf '%s\\0' \"$argument\"; done >\"${HELPER_ARGUMENTS}\"\n\
         exec '{}' --ignored --exact isolated_executor::the_helper --nocapture 3>&1 >/dev/null\n",
        place.root().display(),
        std::env::current_exe().unwrap().display()
    );
    write_script(place.root().join("angelia-helper"), &script)
}

fn write_script(path: PathBuf, script: &str) -> PathBuf {
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}
