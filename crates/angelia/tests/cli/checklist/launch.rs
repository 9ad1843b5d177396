//! Tests of the program's launch: A08 the model, A09 the directory, A17 the tools.

use std::fs;

use super::{ClaudeFixture, bash, on_each_version, tools};

#[test]
fn real_a08_the_model_is_the_one_asked_for() {
    on_each_version(|lab| {
        lab.configure(&[]);
        let turn = lab.machine.turn(&["-s", "chat", "hello"]);
        let default = lab.last_request().model();
        let told = turn.completed().first("turn.started")["model"].as_str().unwrap();
        // The program itself appends the size of the context window.
        assert_eq!(told.trim_end_matches("[1m]"), default);
        assert!(!default.contains("haiku"), "{default}");
        // The default model is resolved once and then fixed.
        lab.machine.turn(&["-s", "chat", "hello"]).completed();
        assert_eq!(lab.last_request().model(), default);

        lab.configure(&["model: haiku"]);
        lab.machine.turn(&["hello"]).completed();
        assert!(lab.last_request().model().contains("haiku"));
        lab.machine.turn(&["-m", "claude-some-model-9", "hello"]).completed();
        assert_eq!(lab.last_request().model(), "claude-some-model-9");

        lab.configure_bridge(&["enabled: true", "model: opus"]);
        lab.machine.set("HERMES_CLAUDE_CODE_MODEL", "haiku");
        lab.machine.turn(&["hello"]).completed();
        assert!(lab.last_request().model().contains("haiku"));
    });
}

/// Returns the working directory of a shell that the agent starts.
fn working_folder(lab: &ClaudeFixture, arguments: &[&str]) -> String {
    let prompt = bash("pwd -P");
    let turn = lab.machine.turn(&[arguments, &[prompt.as_str()]].concat());
    turn.completed().first("tool.finished")["output"].as_str().unwrap().trim().to_owned()
}

#[test]
fn real_a09_the_directory_is_the_one_named() {
    on_each_version(|lab| {
        let root = lab.machine.place.root().canonicalize().unwrap();
        let folder = |name: &str| {
            let path = root.join(name);
            fs::create_dir(&path).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (configured, named, theirs) = (folder("a place"), folder("named"), folder("theirs"));
        lab.configure(&["permissions: unattended"]);
        let here = lab.machine.work().canonicalize().unwrap();
        assert_eq!(working_folder(lab, &[]), here.to_str().unwrap());
        assert_eq!(working_folder(lab, &["--cwd", "../named"]), named);
        lab.configure(&["permissions: unattended", &format!("cwd: '{configured}'")]);
        assert_eq!(working_folder(lab, &[]), configured);
        lab.configure_bridge(&["enabled: true", "permissions: unattended"]);
        lab.machine.set("HERMES_CLAUDE_CODE_CWD", &theirs);
        assert_eq!(working_folder(lab, &[]), theirs);
    });
}

fn offered_tools(lab: &ClaudeFixture) -> Vec<String> {
    lab.machine.turn(&["hello"]).completed();
    tools(&lab.last_request().json()).into_iter().map(str::to_owned).collect()
}

#[test]
fn real_a17_the_tools_are_those_of_the_policy() {
    on_each_version(|lab| {
        let has = |offered: &[String], name: &str| offered.iter().any(|one| one == name);
        lab.configure(&["tools: [Bash, Read]"]);
        let offered_now = offered_tools(lab);
        assert!(has(&offered_now, "Bash") && has(&offered_now, "Read"), "{offered_now:?}");
        assert!(!has(&offered_now, "Write") && !has(&offered_now, "WebFetch"), "{offered_now:?}");
        lab.configure(&["tools: none"]);
        assert!(!has(&offered_tools(lab), "Bash"));
        lab.configure(&["tools: all", "disallowed_tools: [Write]"]);
        let offered_now = offered_tools(lab);
        assert!(has(&offered_now, "Bash") && !has(&offered_now, "Write"), "{offered_now:?}");

        lab.configure_bridge(&["enabled: true"]);
        lab.machine.set("HERMES_CLAUDE_CODE_TOOLS", "Bash,Read,Edit");
        lab.machine.set("HERMES_CLAUDE_CODE_DISALLOWED_TOOLS", "Edit");
        let offered_now = offered_tools(lab);
        assert!(has(&offered_now, "Bash") && !has(&offered_now, "Edit"), "{offered_now:?}");
        assert!(!has(&offered_now, "Write"), "{offered_now:?}");
    });
}

#[test]
fn real_a17_what_is_allowed_needs_no_asking_and_what_is_not_is_declined() {
    on_each_version(|lab| {
        let ran = |lab: &ClaudeFixture, command: &str| {
            let turn = lab.machine.turn(&[&bash(command)]);
            turn.completed();
            turn.first("tool.finished")["ok"].as_bool().unwrap()
        };
        lab.configure(&["allowed_tools: ['Bash(touch *)']"]);
        assert!(ran(lab, "touch allowed"));
        assert!(!ran(lab, "mkdir declined"), "nobody is there to be asked");
        lab.configure(&["permissions: unattended", "disallowed_tools: ['Bash(touch *)']"]);
        assert!(!ran(lab, "touch forbidden"));
        assert!(ran(lab, "mkdir made"));
        lab.configure_bridge(&["enabled: true"]);
        lab.machine.set("HERMES_CLAUDE_CODE_ALLOWED_TOOLS", "Bash(touch *),Read");
        assert!(ran(lab, "touch theirs"));
        let mut names: Vec<_> = fs::read_dir(lab.machine.work())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["allowed", "made", "theirs"]);
    });
}
