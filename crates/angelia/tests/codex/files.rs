//! In model mode no file of this machine can be read, whatever tool the model names.

use std::fs;

use serde_json::{Value, json};

use crate::{
    daemon_fixture::DaemonFixture,
    dialects::{ALL_DIALECTS, ApiDialect},
};

const SECRET: &str = "the-content-of-a-private-file-27182";

/// Tool calls that models have used, or may use, to reach a machine.
const TOOLS: [&str; 27] = [
    "shell",
    "shell_command",
    "local_shell",
    "local_shell_call",
    "exec_command",
    "write_stdin",
    "container.exec",
    "unified_exec",
    "apply_patch",
    "view_image",
    "read_file",
    "list_dir",
    "grep_files",
    "web_search",
    "web_fetch",
    "tool_search",
    "js_repl",
    "exec",
    "spawn_agent",
    "list_mcp_resources",
    "list_mcp_resource_templates",
    "read_mcp_resource",
    "mcp__files__read",
    "mcp__angelia__delegate",
    "request_permissions",
    "request_user_input",
    "skills.read",
];

/// Returns the tools that Codex has offered to the model, by name or kind.
fn offered_tools(asked: &str) -> Vec<String> {
    let request: Value = serde_json::from_str(asked).unwrap();
    let tools = request["tools"].as_array().into_iter().flatten();
    tools
        .filter_map(|tool| tool["name"].as_str().or(tool["type"].as_str()))
        .map(str::to_owned)
        .collect()
}

#[test]
fn real_no_tool_reads_a_file() {
    let root = tempfile::tempdir().unwrap();
    let started = root.path().join("started");
    let theirs = format!(
        "[mcp_servers.files]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"touch {}; cat\"]\n",
        started.display()
    );
    let bench = DaemonFixture::with(&theirs);
    let machine = &bench.lab.machine;
    let path = machine.work().join("secret.txt");
    let home = machine.place.home();
    let skill = home.join(".codex/skills/own");
    fs::create_dir_all(&skill).unwrap();
    for (path, text) in [
        (path.clone(), SECRET.to_owned()),
        (machine.work().join("AGENTS.md"), SECRET.to_owned()),
        (home.join("secret.txt"), SECRET.to_owned()),
        (skill.join("SKILL.md"), format!("---\nname: own\ndescription: own\n---\n{SECRET}\n")),
    ] {
        fs::write(path, text).unwrap();
    }
    let path = path.to_str().unwrap();

    let mut answers = String::new();
    let mut ask = |dialect: ApiDialect, prompt: &str| {
        let told = [ApiDialect::user(prompt)];
        let answer = dialect.post(&bench, &dialect.with_tool(&told, "find"));
        assert_eq!(answer.status, 200, "{prompt}: {answer:?}");
        answers.push_str(&answer.body.to_string());
    };
    for text in ["$own", "@secret.txt", "/init", "!cat secret.txt", "[$own](SKILL.md)"] {
        for dialect in ALL_DIALECTS {
            ask(dialect, &format!("{text} @{path} ECHO:hello"));
        }
    }
    let mut names = offered_tools(bench.model_requests().last().unwrap());
    assert!(names.contains(&"find".to_owned()), "{names:?}");
    names.retain(|name| name != "find");
    names.extend(TOOLS.map(str::to_owned));
    names.sort();
    names.dedup();
    let cat = format!("cat {path}");
    let script = format!("text(await tools.exec_command({{cmd: {cat:?}}}))");
    let change =
        format!("*** Begin Patch\n*** Update File: {path}\n@@\n-{SECRET}\n+changed\n*** End Patch");
    let everything = json!({"cmd": cat, "command": ["cat", path], "path": path,
        "file_path": path, "dir_path": path, "pattern": "the", "input": change, "message": cat,
        "task_name": "t", "session_id": 1, "chars": "x", "code": script, "query": path,
        "url": format!("file://{path}"), "server": "files", "uri": format!("file://{path}"),
        "profile": "default", "permissions": {"file_system": {"read": ["/"]}},
        "sandbox_permissions": "require_escalated", "justification": "please"});
    for (index, name) in names.iter().enumerate() {
        // The patch itself contains the secret, so finding it in the request proves nothing.
        let inputs = [everything.clone(), json!(script)];
        for input in inputs {
            let mut input = input;
            if let Some(given) = input.get_mut("input") {
                *given = json!(format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch"));
            }
            let call = json!({"name": name, "input": input});
            ask(ALL_DIALECTS[index % 3], &format!("TOOL:{call}:END ECHO:done"));
        }
    }
    for (what, change) in [("Delete", ""), ("Update", "@@\n+more\n")] {
        let input = format!("*** Begin Patch\n*** {what} File: {path}\n{change}*** End Patch");
        let call = json!({"name": "apply_patch", "input": input});
        ask(ApiDialect::Chat, &format!("TOOL:{call}:END ECHO:done"));
    }

    assert_eq!(fs::read_to_string(path).unwrap(), SECRET, "nor changed");
    assert!(!answers.contains(SECRET), "{answers}");
    let asked = bench.model_requests();
    assert!(asked.len() > 2 * names.len(), "every call was answered");
    for body in asked {
        assert!(!body.contains(SECRET), "{body}");
    }
    assert!(!started.exists(), "no server of the owner's was started");
    bench.end();
}

/// Codex would add the instructions of the owner's own folder by itself; here it has another folder.
#[test]
fn real_the_owners_own_instructions_are_not_shown() {
    let bench = DaemonFixture::new();
    let home = bench.lab.machine.place.home();
    fs::write(home.join(".codex/AGENTS.md"), SECRET).unwrap();
    for dialect in ALL_DIALECTS {
        let told = [ApiDialect::user("ECHO:hello")];
        let answer = dialect.post(&bench, &dialect.request(&told));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let asked = bench.model_requests();
    assert_eq!(asked.len(), ALL_DIALECTS.len());
    assert!(!asked.iter().any(|body| body.contains(SECRET)), "{asked:?}");
    bench.end();
}
