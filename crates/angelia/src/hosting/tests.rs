//! Tests of rules, scripts, commands and hooks with real programs.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::{
    engine::rules::ColourMode,
    model::bus::{BusMessage, Destination},
    ports::CommandRunner,
    task::TaskGroup,
};
use angelia_frontends::bus_rules::{LiveRules, RuleRunner, Screen};
use tempfile::TempDir;
use tokio::sync::broadcast;

use crate::{cli::notify, config::Environment};

const DEADLINE: Duration = Duration::from_mins(1);

#[derive(Default)]
struct RecordingScreen(Mutex<Vec<String>>);

impl Screen for RecordingScreen {
    fn ink(&self) -> ColourMode {
        ColourMode::Plain
    }

    fn show(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }

    fn show_notice(&self, line: &str) {
        self.show(line);
    }
}

struct HostingFixture {
    folder: TempDir,
    environment: Environment,
    tasks: TaskGroup,
}

impl HostingFixture {
    fn new(more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        let variables = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", home.as_str())];
        let environment = variables
            .iter()
            .chain(more)
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect();
        Self { folder, environment, tasks: TaskGroup::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn commands(&self) -> Arc<dyn CommandRunner> {
        Arc::new(notify::sender_commands(&self.environment).unwrap())
    }

    fn reactor(&self, rules: &str) -> (RuleRunner, Arc<RecordingScreen>) {
        fs::create_dir_all(self.path(".angelia")).unwrap();
        fs::write(self.path(".angelia/bus-rules.yaml"), rules).unwrap();
        let lines = Arc::<RecordingScreen>::default();
        let home = self.path(".angelia");
        let screen = Arc::clone(&lines) as _;
        let reactor =
            super::build_rule_runner(&self.environment, home, self.commands(), screen, &self.tasks);
        (reactor, lines)
    }

    async fn file(&self, name: &str, lines: usize) -> String {
        let there = async {
            loop {
                let text = fs::read_to_string(self.path(name)).unwrap_or_default();
                if text.lines().count() >= lines {
                    return text;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, there).await.unwrap()
    }
}

fn message(body: &str) -> BusMessage {
    let envelope = format!(r#"{{"type":"message","ts":1700000000.9,"body":{body}}}"#);
    BusMessage {
        id: "m-1".into(),
        from: Some("alice".into()),
        verified: true,
        to: Destination::Everyone,
        envelope: envelope.into(),
    }
}

#[tokio::test]
async fn a_command_is_given_all_six_variables() {
    let stage = HostingFixture::new(&[]);
    let rules = r#"
callbacks:
- match_type: go
  print: false
  command: 'printf "%s\n" "$TYPE" "$FROM" "$CHANNEL" "$TEXT" "$TS" "$MESSAGE" > out.new && mv out.new out'
"#;
    let (reactor, lines) = stage.reactor(rules);
    let sent = message(r#"{"type":"go","text":"$(touch run) 'q'","channel":"x:1"}"#);
    reactor.apply(&sent).await;
    let out = stage.file("out", 6).await;
    let whole = String::from_utf8(sent.envelope.to_vec()).unwrap();
    assert_eq!(out, format!("go\nalice\nx:1\n$(touch run) 'q'\n1700000000\n{whole}\n"));
    assert!(!stage.path("run").exists());
    assert!(lines.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_script_finds_the_words_or_the_text_stands() {
    let stage = HostingFixture::new(&[]);
    let words = stage.script("words.sh", r#"echo "$FORMAT_MODE $FROM $TYPE $TEXT $TS""#);
    stage.script("broken.sh", "echo half; exit 1");
    let hangs = stage.script("hangs.sh", "echo half; exec sleep 600");
    let rules = format!(
        "callbacks:\n\
         - {{match_type: words, print_format: {words}}}\n\
         - {{match_type: told, context: true, context_format: {words}}}\n\
         - {{match_type: broken, print_format: ~/broken.sh}}\n\
         - {{match_type: hangs, print_format: {hangs}}}\n\
         - {{match_type: missing, print_format: /missing/program}}\n"
    );
    let (reactor, lines) = stage.reactor(&rules);
    for kind in ["words", "broken", "hangs", "missing"] {
        let body = format!(r#"{{"type":"{kind}","text":"the text"}}"#);
        reactor.apply(&message(&body)).await;
    }
    let left = reactor.apply(&message(r#"{"type":"told","text":"hi"}"#)).await;
    assert_eq!(left.context.unwrap().0, "context alice told hi 1700000000");
    assert_eq!(
        *lines.0.lock().unwrap(),
        ["print alice words the text 1700000000", "the text", "the text", "the text"]
    );
}

#[tokio::test]
async fn hooks_read_every_message() {
    let hook_text = "import sys, os\nopen('seen', 'a').write(sys.stdin.read() + '\\n')\n";
    let setting = |folder: &std::path::Path| folder.join("hook.py").display().to_string();
    let mut stage = HostingFixture::new(&[]);
    fs::write(stage.path("hook.py"), hook_text).unwrap();
    let hook = setting(stage.folder.path());
    let variables = stage.environment.iter();
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let named = (OsString::from("HERMES_BUS_HOOKS"), OsString::from(hook));
    stage.environment = variables.chain([named]).collect();
    let (heard, _) = broadcast::channel(16);
    super::spawn_hooks(&stage.environment, stage.commands(), &heard, &stage.tasks);
    for text in ["one", "two"] {
        heard.send(message(&format!("\"{text}\""))).unwrap();
    }
    let seen = stage.file("seen", 2).await;
    assert!(seen.contains("\"body\":\"one\"") && seen.contains("\"body\":\"two\""), "{seen}");
    assert!(stage.tasks.shutdown(DEADLINE).await);
}

#[test]
fn hooks_and_names_come_from_where_they_were_before() {
    let stage = HostingFixture::new(&[]);
    fs::create_dir_all(stage.path(".hermes/hermes-bus")).unwrap();
    fs::write(stage.path(".hermes/hermes-bus/hooks.yaml"), "hooks:\n- /a/b.py\n").unwrap();
    assert_eq!(*super::load_hook_list(&stage.environment).0, ["/a/b.py".into()]);

    let rules = LiveRules::new(Vec::new());
    let name = |more: &[(&str, &str)], gateway| {
        let stage = HostingFixture::new(more);
        super::endpoint_name(&stage.environment, None, &rules, gateway).unwrap().to_string()
    };
    assert_eq!(name(&[], false), "angelia");
    assert_eq!(name(&[], true), "angelia");
    assert_eq!(name(&[("HERMES_BUS_ENDPOINT", "coder")], true), "coder-gateway");
    assert_eq!(name(&[("HERMES_HOME", "/elsewhere/work")], false), "angelia");
    let home = stage.path(".hermes/profiles/work");
    let environment: Environment = [
        ("HOME".into(), stage.folder.path().into()),
        ("HERMES_HOME".into(), home.into_os_string()),
    ]
    .into_iter()
    .collect();
    assert_eq!(super::endpoint_name(&environment, None, &rules, false).unwrap().as_str(), "work");

    // Hermes' rules file names the endpoint as Hermes does, and ours as it is written.
    let environment = &stage.environment;
    for (folder, expected) in [(".angelia", "coder"), (".hermes", "coder-gateway")] {
        fs::create_dir_all(stage.path(folder)).unwrap();
        let path = stage.path(folder).join("bus-rules.yaml");
        fs::write(&path, "bus: {endpoint: coder}\n").unwrap();
        let rules = LiveRules::new(vec![path]);
        let name = super::endpoint_name(environment, None, &rules, true).unwrap();
        assert_eq!(name.as_str(), expected);
        let name = super::endpoint_name(environment, Some("mine"), &rules, true).unwrap();
        assert_eq!(name.as_str(), "mine");
    }
}
