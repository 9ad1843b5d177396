//! The environment, pipes and folder a child starts with, and the errors when it cannot start.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use angelia_executors::process::{ProcessLaunch, SpawnError, run_to_end, spawn};
use tempfile::TempDir;

use super::{DEADLINE, shell};

fn program(folder: &TempDir, content: &str, mode: u32) -> PathBuf {
    let path = folder.path().join("program");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

async fn refusal(launch: ProcessLaunch) -> SpawnError {
    spawn(&launch).await.unwrap_err()
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_mark() {
    let mut launch = shell("env");
    launch.env.insert("GIVEN".into(), "yes".into());
    let finished = run_to_end(&launch, DEADLINE).await.unwrap();
    let output = String::from_utf8(finished.stdout).unwrap();
    // Variables that the shell sets by itself.
    let own = ["PWD=", "SHLVL=", "_=", "OLDPWD="];
    let mut lines: Vec<&str> =
        output.lines().filter(|line| !own.iter().any(|own| line.starts_with(own))).collect();
    lines.sort_unstable();
    let mark = format!("ANGELIA_AGENT={}", launch.mark);
    assert_eq!(lines, [mark.as_str(), "GIVEN=yes", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn a_child_leads_a_group_of_its_own_in_the_given_folder() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let launch = ProcessLaunch { cwd: cwd.clone(), ..shell("echo $$; ps -o pgid= -p $$; pwd -P") };
    let finished = run_to_end(&launch, DEADLINE).await.unwrap();
    let output = String::from_utf8(finished.stdout).unwrap();
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    assert_eq!(lines.last().copied(), cwd.to_str());
    if lines.len() == 3 {
        assert_eq!(lines[0], lines[1]); // `ps` is there
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let error = refusal(ProcessLaunch { program: "/no/such/agent".into(), ..shell("") }).await;
    assert!(matches!(&error, SpawnError::NotFound(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the program /no/such/agent does not exist; install it, or set `binary` to its full path"
    );
}

#[tokio::test]
async fn a_bad_working_directory_is_not_mistaken_for_a_missing_program() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("gone");
    let error = refusal(ProcessLaunch { cwd: missing.clone(), ..shell("") }).await;
    assert!(matches!(&error, SpawnError::NoCwd(cwd) if *cwd == missing), "{error:?}");

    let file = folder.path().join("file");
    File::create(&file).unwrap();
    let error = refusal(ProcessLaunch { cwd: file, ..shell("") }).await;
    assert!(matches!(error, SpawnError::CwdNotDirectory(_)), "{error:?}");

    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    if fs::read_dir(&closed).is_err() {
        let error = refusal(ProcessLaunch { cwd: closed, ..shell("") }).await;
        assert!(matches!(error, SpawnError::CwdUnreadable(_)), "{error:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_executed_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let plain = program(&folder, "#!/bin/sh\n", 0o644);
    let error = refusal(ProcessLaunch { program: plain, ..shell("") }).await;
    assert!(matches!(error, SpawnError::NotExecutable(_)), "{error:?}");

    let orphaned = program(&folder, "#!/no/such/interpreter\n", 0o755);
    let error = refusal(ProcessLaunch { program: orphaned, ..shell("") }).await;
    assert!(matches!(error, SpawnError::NoInterpreter(_)), "{error:?}");

    let error = refusal(ProcessLaunch { program: folder.path().into(), ..shell("") }).await;
    assert!(matches!(error, SpawnError::NotExecutable(_)), "{error:?}");
}

#[tokio::test]
async fn arguments_have_a_limit() {
    let mut launch = shell("");
    launch.args.push("x".repeat(8 * 1024 * 1024).into());
    let error = refusal(launch).await;
    assert!(matches!(error, SpawnError::TooLong(_)), "{error:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_is_being_written_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sleep");
    fs::copy("/bin/sleep", &path).unwrap();
    let launch = ProcessLaunch { program: path.clone(), args: vec!["0".into()], ..shell("") };

    let writer = OpenOptions::new().append(true).open(&path).unwrap();
    let error = refusal(launch.clone()).await;
    assert!(matches!(error, SpawnError::Busy(_)), "{error:?}");

    let run = run_to_end(&launch, DEADLINE);
    tokio::pin!(run);
    assert!(tokio::time::timeout(Duration::from_millis(5), &mut run).await.is_err());
    drop(writer);
    assert!(run.await.unwrap().succeeded());
}
