//! Commands of the owner's rules: their environment, input, limits and leftover processes.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    ports::{CommandOutput, CommandProgram, CommandRunner as _, CommandSpec, CommandStartError},
    redact::Redactor,
    task::TaskGroup,
};
use angelia_executors::{
    DelegationSlot, ExecutorHost,
    process::{HomeId, OwnerId, ShellCommands},
};
use angelia_testkit::clock::SystemClock;

use super::{DEADLINE, eventually, fresh_mark, is_alive, parse_pid};

fn commands() -> ShellCommands {
    let mark = fresh_mark();
    let home = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let environment = [("PATH", "/usr/bin:/bin"), ("OWNERS", "own value")];
    let environment = environment.map(|(name, value)| (name.into(), value.into()));
    ShellCommands::new(ExecutorHost {
        environment: Arc::new(environment.into()),
        user_home: home.clone(),
        home_id: HomeId::new(mark.home.as_str()).unwrap(),
        owner_id: OwnerId::new(mark.owner.as_str()).unwrap(),
        work_dir: home.clone(),
        ledger: home.join("ledger"),
        redactor: Redactor::new(Vec::<String>::new()),
        tasks: TaskGroup::new(),
        clock: Arc::new(SystemClock),
        current_exe: "/nonexistent".into(),
        prices: Arc::default(),
        providers: Arc::default(),
        delegation: DelegationSlot::default(),
        keep_warm: false,
        wire_log: None,
    })
}

fn line(text: &str) -> CommandSpec {
    CommandSpec {
        program: CommandProgram::Shell(text.into()),
        env: Vec::new(),
        input: None,
        timeout: DEADLINE,
    }
}

async fn run(command: CommandSpec) -> CommandOutput {
    commands().run(command).await.unwrap()
}

#[tokio::test]
async fn it_has_the_owners_environment_and_the_messages() {
    let mut command = line("printf '%s|' \"$OWNERS\" \"$TEXT\"; cat; echo why >&2; exit 3");
    command.env = vec![("TEXT", "$(echo not run) 'x'".into()), ("BIG", "b".repeat(1 << 20).into())];
    let ran = run(command).await;
    assert_eq!(ran.stdout, b"own value|$(echo not run) 'x'|");
    assert_eq!((ran.ok, ran.timed_out, &*ran.stderr), (false, false, "why\n"));
}

#[tokio::test]
async fn it_may_read_a_long_input_or_leave_it() {
    let input: Arc<[u8]> = "x".repeat(4 << 20).into_bytes().into();
    let mut command = line("wc -c");
    command.input = Some(Arc::clone(&input));
    let said = String::from_utf8(run(command.clone()).await.stdout).unwrap();
    assert_eq!(said.trim(), (4 << 20).to_string());
    command.program = CommandProgram::Shell("exit 0".into());
    assert!(run(command).await.ok);
}

async fn wait_gone(said: Vec<u8>) {
    let pid = parse_pid(&String::from_utf8(said).unwrap());
    eventually("it is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn what_it_leaves_behind_goes_with_it() {
    let ran = run(line("setsid sleep 60 >/dev/null 2>&1 & echo $!")).await;
    assert!(ran.ok);
    wait_gone(ran.stdout).await;

    let mut command = line("echo $$; exec sleep 60");
    command.timeout = Duration::from_millis(300);
    let ran = run(command).await;
    assert!(ran.timed_out && !ran.ok);
    wait_gone(ran.stdout).await;
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    let mut command = line("");
    command.program = CommandProgram::File("/nonexistent/program".into(), Vec::new());
    let failed = commands().run(command).await;
    assert!(matches!(failed, Err(CommandStartError::NotFound(_))), "{failed:?}");
    assert!(!commands().is_program("/nonexistent/program"));
    assert!(!commands().is_program("/"));
    assert!(commands().is_program("/bin/sh"));
}
