//! The features that users of Plano's claude-cli provider rely on (rows C04–C16 and C24 of the
//! checklist), on the real program.

use std::fs;

use angelia_testkit::real::RealClaude;
use serde_json::{Value, json};

use crate::{
    agent_processes,
    daemon_fixture::{DaemonFixture, ExtraConfig},
    machine::until,
    post::{PlainResponse, assistant, conversation_lines, post, post_to, request, user},
};

const AGENTS: ExtraConfig<'static> = ExtraConfig {
    claude: "    cwd: /\n",
    http: "  agent_mode: true\n",
    blocks: "",
    variables: &[],
};

/// Returns a request in agent mode, under Plano's model name.
fn ask(told: &[Value]) -> Value {
    json!({"model": "claude-cli/sonnet", "max_tokens": 4096, "messages": told})
}

fn on_each_version(more: ExtraConfig<'_>, test: impl Fn(DaemonFixture)) {
    for claude in RealClaude::for_product_tests().unwrap() {
        test(DaemonFixture::with(&claude, more));
    }
}

fn get(bench: &DaemonFixture, path: &str) -> PlainResponse {
    request(bench, "GET", path, "", &Value::Null)
}

/// Returns the processes of the program, without their own children.
fn programs(bench: &DaemonFixture) -> Vec<u32> {
    let mut pids = agent_processes::agent_pids(&bench.machine);
    pids.retain(|pid| agent_processes::command_line(*pid).contains("--input-format"));
    pids
}

fn environment(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
    String::from_utf8_lossy(&bytes).replace('\0', "\n")
}

/// C04, C05, C06: the paths, every dialect, and both kinds of ids.
#[test]
fn real_the_surface_and_the_ids_of_models() {
    on_each_version(AGENTS, |bench| {
        assert_eq!(get(&bench, "/healthz").status, 200);
        assert_eq!(get(&bench, "/v1/nothing").status, 404);
        assert_eq!(post(&bench, &ask(&[user("ECHO:one")])).message_text(), "one");
        let chat = json!({"model": "claude-cli/sonnet", "messages": [user("ECHO:two")]});
        let chat = post_to(&bench, "/v1/chat/completions", &chat);
        let content = &chat.body["choices"][0]["message"]["content"];
        assert_eq!(*content, "two", "{chat:?}");
        let response = json!({"model": "claude-cli/sonnet", "input": "ECHO:three"});
        let response = post_to(&bench, "/v1/responses", &response);
        assert!(response.body.to_string().contains("three"), "{response:?}");
        let listed = get(&bench, "/v1/models").body.to_string();
        for id in ["claude/sonnet", "claude/haiku", "claude/default", "claude-agent/sonnet"] {
            assert!(listed.contains(id), "{id} in {listed}");
        }
        // The program gets the model without the prefix; dated ids are passed on unchanged.
        let dated = json!({"model": "claude-sonnet-4-5-20250929", "max_tokens": 9,
            "messages": [user("ECHO:x")]});
        assert_eq!(post(&bench, &dated).status, 200);
        let asked = bench.model_requests();
        assert!(!asked.concat().contains("claude-cli/"));
        assert!(asked[3].contains("\"model\":\"claude-sonnet-4-5-20250929\""));
        bench.end();
    });
}

/// C07, C09, C10: the program's arguments, and the part of our environment that it gets.
#[test]
fn real_the_command_line_and_the_environment_of_the_program() {
    let more = ExtraConfig {
        variables: &[
            ("ANTHROPIC_AUTH_TOKEN", "of-the-daemon"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "of-the-daemon"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://of-the-daemon"),
        ],
        ..AGENTS
    };
    on_each_version(more, |bench| {
        let first = post(&bench, &ask(&[user("ECHO:one")]));
        let second = post(&bench, &ask(&[user("ECHO:one")]));
        assert_ne!(first.session(), second.session());
        let agents = programs(&bench);
        assert_eq!(agents.len(), 2);
        let lines: Vec<String> =
            agents.iter().map(|pid| agent_processes::command_line(*pid)).collect();
        for line in &lines {
            for flag in [
                "--input-format stream-json",
                "--output-format stream-json",
                "--include-partial-messages",
                "--verbose",
                "--model sonnet",
                "--session-id ",
            ] {
                assert!(line.contains(flag), "{flag} in {line}");
            }
            assert!(!line.contains("ECHO"), "{line}");
            assert!(!line.contains("dangerously"), "{line}");
        }
        let id = |line: &str| line.split("--session-id ").nth(1).map(str::to_owned).unwrap();
        assert_ne!(id(&lines[0])[..36], id(&lines[1])[..36], "one for each process");
        for pid in agents {
            let variables = environment(pid);
            assert!(!variables.contains("of-the-daemon"), "{variables}");
        }
        bench.end();
    });
}

/// C08: the system prompt is appended in agent mode and stands alone in model mode; a list of
/// blocks becomes one text.
#[test]
fn real_the_system_prompt_of_the_request() {
    on_each_version(AGENTS, |bench| {
        let system = json!([
            {"type": "text", "text": "Speak like a pirate."},
            {"type": "text", "text": "Be brief."},
        ]);
        let mut body = ask(&[user("ECHO:one")]);
        body["system"] = system;
        assert_eq!(post(&bench, &body).status, 200);
        body["model"] = json!("claude/sonnet");
        assert_eq!(post(&bench, &body).status, 200);
        let asked = bench.model_requests();
        let system = |request: &str| -> String {
            let request: Value = serde_json::from_str(request).unwrap();
            request["system"].to_string()
        };
        let (agent, model) = (system(&asked[0]), system(&asked[1]));
        for prompt in [&agent, &model] {
            assert!(prompt.contains("Speak like a pirate."), "{prompt}");
            assert!(prompt.contains("Be brief."), "{prompt}");
        }
        assert!(agent.len() > 4 * model.len(), "{} {}", agent.len(), model.len());
        bench.end();
    });
}

/// C11, C13: a named conversation continues in the same process.
#[test]
fn real_the_session_header_keeps_conversations_apart() {
    on_each_version(AGENTS, |bench| {
        let named = |name: &str, told: &[Value]| {
            let header = format!("x-arch-claude-cli-session: {name}\r\n");
            request(&bench, "POST", "/v1/messages", &header, &ask(told))
        };
        let uuid = "0b0f6e0a-5a3c-4f0e-9d53-0f2b6a1c9e11";
        let one = named(uuid, &[user("ECHO:one")]);
        let other = named("any text at all", &[user("ECHO:one")]);
        assert_ne!(one.session(), other.session());
        let told = [user("ECHO:one"), assistant("one"), user("ECHO:two")];
        let again = named(uuid, &told);
        assert_eq!(again.message_text(), "two");
        assert_eq!(again.session(), one.session());
        assert_eq!(programs(&bench).len(), 2);
        // Only the new turn was sent, because the program already has the rest.
        assert_eq!(bench.model_requests().len(), 3);
        let lines = conversation_lines(&bench.model_requests()[2]);
        let twice = lines.iter().filter(|line| *line == "user: ECHO:one").count();
        assert_eq!(twice, 1, "{lines:?}");
        bench.end();
    });
}

/// C15, C16, C24: Plano's variables; idle processes end by themselves, and the oldest one is
/// replaced when there are too many.
#[test]
fn real_idle_processes_end_and_the_oldest_makes_room() {
    let more = ExtraConfig {
        variables: &[
            ("CLAUDE_CLI_SESSION_TTL_SECS", "2"),
            ("CLAUDE_CLI_MAX_SESSIONS", "1"),
            ("CLAUDE_CLI_WATCHDOG_SECS", "not a number"),
        ],
        ..AGENTS
    };
    on_each_version(more, |bench| {
        assert_eq!(post(&bench, &ask(&[user("ECHO:one")])).message_text(), "one");
        assert_eq!(post(&bench, &ask(&[user("ECHO:two")])).message_text(), "two");
        assert!(programs(&bench).len() <= 1, "one made room for the other");
        until("the idle one is ended", || bench.agents() == 0);
        // The conversation survives the end of its process.
        let told = [user("ECHO:two"), assistant("two"), user("ECHO:three")];
        assert_eq!(post(&bench, &ask(&told)).message_text(), "three");
        let lines = conversation_lines(bench.model_requests().last().unwrap());
        assert!(lines.concat().contains("ECHO:two"), "{lines:?}");
        bench.end();
    });
}
