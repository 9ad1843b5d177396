//! The sandbox of commands, with the kernel's own Landlock.

use std::{
    fs,
    io::{self, Write as _},
    net::TcpListener,
};

use angelia_core::model::SandboxMode;
use angelia_executors::{
    native::sandbox::SandboxSettings,
    process::confinement::{LandlockSupport, landlock_support},
};
use serde_json::json;

use super::{
    harness::{call, done, prepare},
    session::CommandPlace,
};

/// Commands in a sandbox with these settings, or `None` where the kernel has none, after checking
/// what happens there.
fn sandboxed(settings: &SandboxSettings) -> Option<CommandPlace> {
    let support = landlock_support();
    let place = CommandPlace::sandboxed(settings, support);
    if support.files {
        return Some(place);
    }
    let _closed = writeln!(io::stderr(), "this kernel has no Landlock; the fallback is checked");
    let call = prepare(&place.bash(), &json!({"command": "true"})).unwrap();
    assert!(call.plan().must_ask.is_some(), "every command is asked about");
    None
}

#[tokio::test]
async fn commands_work_in_their_directory_and_with_temporary_files() {
    let Some(place) = sandboxed(&SandboxSettings::default()) else { return };
    let bash = place.bash();
    let script = "set -e; mkdir -p a/b; echo x >a/b/c; mv a/b/c d; cat d; rm -r a; ln -s d e; \
                  echo tmp >$(mktemp); cat <(echo pipes); echo null >/dev/null; head -c4 /dev/urandom | wc -c; \
                  git init -q . 2>&1; test -d .git; exec 2>&1; ls /usr/bin >/dev/null; cat /proc/cpuinfo >/dev/null";
    let text = done(&bash, json!({"command": script})).await;
    assert!(text.starts_with("x\npipes\n4\n[exit code 0"), "{text}");
    assert_eq!(fs::read_to_string(place.shell.cwd.join("d")).unwrap(), "x\n");
}

#[tokio::test]
async fn secrets_and_our_own_files_cannot_be_read_or_written() {
    let Some(place) = sandboxed(&SandboxSettings::default()) else { return };
    let bash = place.bash();
    let root = place.root.display();
    let ways = [
        "cat ~/.ssh/id_ed25519".to_owned(),
        format!("cat {root}/angelia/daemon.token"),
        "ls ~".to_owned(),
        "ln -s ~/.ssh/id_ed25519 k; cat k".to_owned(),
        "ln ~/.ssh/id_ed25519 hard && cat hard".to_owned(),
        "cp -r ~/.ssh copy".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
        "echo x >~/.bashrc".to_owned(),
        "truncate -s0 ~/.ssh/id_ed25519".to_owned(),
        "rm -f ~/.ssh/id_ed25519 && test ! -e ~/.ssh/id_ed25519".to_owned(),
        format!("echo x >>{root}/angelia/sessions/1/output/mine"),
        "echo x >/usr/local/mine".to_owned(),
        "python3 -c 'open(\"/etc/mine\", \"w\")'".to_owned(),
    ];
    for command in ways {
        let output = call(&bash, json!({"command": command})).await;
        let text = output.all_text();
        assert!(!output.ok && !text.contains("s3cret"), "{command}: {text}");
        assert!(!text.contains("must-not-leak"), "{command}: {text}");
    }
    let secret = place.root.join("home/.ssh/id_ed25519");
    assert_eq!(fs::read_to_string(secret).unwrap(), "s3cret");
    // What it was told to read, it may read.
    fs::write(place.output.path().join("bash-9.txt"), "kept").unwrap();
    let own =
        done(&bash, json!({"command": format!("cat {root}/angelia/sessions/1/output/bash-9.txt")}));
    assert!(own.await.starts_with("kept\n"));
    let for_chat = format!("{root}/angelia/sessions/1/output/chat/report.txt");
    done(&bash, json!({"command": format!("echo x >{for_chat}")})).await;
    assert_eq!(fs::read_to_string(for_chat).unwrap(), "x\n");
}

#[tokio::test]
async fn a_command_has_no_capabilities_and_gets_none_back() {
    let Some(place) = sandboxed(&SandboxSettings::default()) else { return };
    // A program such as `cat` is a process of its own, whose `/proc` entry is not granted.
    let command =
        json!({"command": "while read -r line; do echo \"$line\"; done </proc/$$/status"});
    let status = done(&place.bash(), command).await;
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
}

#[tokio::test]
async fn tcp_is_refused_unless_the_network_is_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect =
        json!({"command": format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")});
    if !landlock_support().tcp {
        eprintln!("this kernel cannot refuse TCP; only the fallback is checked");
        let place = CommandPlace::sandboxed(&SandboxSettings::default(), landlock_support());
        assert!(prepare(&place.bash(), &connect).unwrap().plan().must_ask.is_some());
        return;
    }
    let Some(place) = sandboxed(&SandboxSettings::default()) else { return };
    let refused = call(&place.bash(), connect.clone()).await;
    assert!(!refused.ok && refused.all_text().contains("Permission denied"), "{refused:?}");
    let open = SandboxSettings { network: true, ..SandboxSettings::default() };
    let Some(place) = sandboxed(&open) else { return };
    assert!(done(&place.bash(), connect).await.starts_with("connected\n"));
}

#[tokio::test]
async fn the_owner_opens_more_folders() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    fs::create_dir(folder.join("cache")).unwrap();
    fs::create_dir(folder.join("data")).unwrap();
    fs::write(folder.join("data/file"), "data\n").unwrap();
    let settings = SandboxSettings {
        read: vec![folder.join("data")],
        write: vec![folder.join("cache")],
        ..SandboxSettings::default()
    };
    let Some(place) = sandboxed(&settings) else { return };
    let (cache, data) = (folder.join("cache").display().to_string(), folder.join("data"));
    let data = data.display();
    let both = format!("cat {data}/file && echo x >{cache}/x && cat {cache}/x");
    assert!(done(&place.bash(), json!({"command": both})).await.starts_with("data\nx\n"));
    let write = call(&place.bash(), json!({"command": format!("echo x >{data}/x")})).await;
    assert!(!write.ok, "{write:?}");
}

#[tokio::test]
async fn without_landlock_every_command_is_a_question_unless_the_sandbox_is_off() {
    let none = LandlockSupport::default();
    let place = CommandPlace::sandboxed(&SandboxSettings::default(), none);
    let call_plan = prepare(&place.bash(), &json!({"command": "true"})).unwrap();
    let reason = call_plan.plan().must_ask.clone().unwrap();
    assert!(reason.contains("no Landlock"), "{reason}");
    let off = SandboxSettings { mode: SandboxMode::Off, ..SandboxSettings::default() };
    let place = CommandPlace::sandboxed(&off, none);
    assert!(prepare(&place.bash(), &json!({"command": "true"})).unwrap().plan().must_ask.is_none());
    assert!(
        done(&place.bash(), json!({"command": "cat ~/.ssh/id_ed25519"})).await.contains("s3cret")
    );
}

#[tokio::test]
async fn signals_stay_inside() {
    let Some(place) = sandboxed(&SandboxSettings::default()) else { return };
    let us = std::process::id();
    let outside = json!({"command": format!("kill -0 {us} && echo reached")});
    let output = call(&place.bash(), outside).await;
    // Before Linux 6.12, only the rights of the user limit signals.
    assert_eq!(output.ok, !landlock_support().scopes, "{output:?}");
    let inside = json!({"command": "sleep 60 & kill $! && echo ended"});
    assert!(done(&place.bash(), inside).await.starts_with("ended\n"));
}
