//! `notify-agent` and the sender's name, with the real tmux on a private socket.

use super::{
    fake_bus::FakeBus,
    notify_fixture::{NotifyFixture, text, wait_for},
};

/// A tmux server for this test only; killed when the test ends.
struct Tmux<'a>(&'a NotifyFixture);

impl<'a> Tmux<'a> {
    /// Starts a session that runs a program instead of a shell.
    fn with_session(place: &'a NotifyFixture, name: &str, program: &str) -> Self {
        let tmux = Self(place);
        let size = ["-x", "200", "-y", "50"];
        let mut command = place.command("tmux");
        command.args(["-f", "/dev/null", "new-session", "-d", "-s", name]);
        let output = command.args(size).arg(program).output().unwrap();
        assert!(output.status.success(), "is tmux installed? {output:?}");
        tmux
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let _gone_already = self.0.command("tmux").arg("kill-server").output();
    }
}

/// A script that records every line it reads and every interrupt.
const RECORDING_SCRIPT: &str =
    "trap : INT; while :; do cat >> notes; echo interrupted >> notes; done";

fn recorded_lines(place: &NotifyFixture, lines: usize) -> Vec<String> {
    wait_for("the lines are there", || {
        let notes = std::fs::read_to_string(place.path("notes")).unwrap_or_default();
        let found: Vec<String> = notes.lines().map(str::to_owned).collect();
        (found.len() >= lines).then_some(found)
    })
}

#[test]
fn text_is_typed_as_it_is_and_submitted_once() {
    let place = NotifyFixture::new();
    let _tmux = Tmux::with_session(&place, "dev", RECORDING_SCRIPT);
    place.write("names.yaml", "role_map: {be: {name: Backend}}\n");
    wait_for("the program runs", || place.path("notes").exists().then_some(()));
    let long = "ü".repeat(1500);
    let texts: [&[&str]; 8] = [
        &["dev", "plain", "words"],
        &["dev", "Enter"],
        &["dev", "C-c"],
        &["--to", "dev", "--", "-l -t; $(touch x) `id` \"q\" 'a' \\ #{pane_id}"],
        &["--config", "names.yaml", "--from", "be", "dev", "hello"],
        &["dev", &long],
        &["dev", "cd /tmp;"],
        &["dev", r"find -exec \;;\;"],
    ];
    for (count, args) in texts.iter().enumerate() {
        let output = place.run("notify-agent", args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert_eq!(text(&output.stdout), "OK: typed into dev\n");
        recorded_lines(&place, count + 1);
    }
    let expected = [
        "plain words",
        "Enter",
        "C-c",
        "-l -t; $(touch x) `id` \"q\" 'a' \\ #{pane_id}",
        "⚕ [Backend]: hello",
        &long,
        "cd /tmp;",
        r"find -exec \;;\;",
    ];
    assert_eq!(recorded_lines(&place, 8), expected);
    assert!(!place.path("x").exists());
}

#[test]
fn an_interrupt_comes_only_when_asked_for() {
    let place = NotifyFixture::new();
    let _tmux = Tmux::with_session(&place, "dev", RECORDING_SCRIPT);
    wait_for("the program runs", || place.path("notes").exists().then_some(()));
    let output = place.run("notify-agent", &["--interrupt", "dev", "after"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(recorded_lines(&place, 2), ["interrupted", "after"]);
}

#[test]
fn what_is_not_there_is_a_failure() {
    let place = NotifyFixture::new();
    let output = place.run("notify-agent", &["dev", "hello"]);
    assert_eq!(output.status.code(), Some(1), "no server: {output:?}");
    let _tmux = Tmux::with_session(&place, "develop", "cat");
    let output = place.run("notify-agent", &["dev", "hello"]);
    assert_eq!(output.status.code(), Some(1), "only a longer name: {output:?}");
    assert!(text(&output.stderr).contains("no tmux session `dev`"), "{output:?}");
    assert!(output.stdout.is_empty());
    let output = place.run("notify-agent", &["develop"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("usage"), "{output:?}");
}

#[test]
fn a_sender_in_tmux_is_called_after_its_session() {
    let place = NotifyFixture::new();
    let accepted = r#"{"type": "accepted", "id": "ID", "queued": true}"#;
    let bus = FakeBus::new(&place, ".hermes/hermes-bus.sock", vec![vec![accepted]; 2]);
    place.write(".hermes/bus-rules.yaml", "role_map: {be: {name: Backend}}\n");
    let program = place.path("notify-hermes");
    let line = format!("{} --to coder hi; sleep 60", program.display());
    let _tmux = Tmux::with_session(&place, "be", &line);
    assert_eq!(bus.next_message()["from"], "Backend");
    let _other = Tmux::with_session(&place, "plain", &line);
    assert_eq!(bus.next_message()["from"], "plain");
}
