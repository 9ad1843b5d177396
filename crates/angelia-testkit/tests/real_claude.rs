//! The real Claude Code, oldest and newest version, against the scripted model server: proof that
//! the server speaks the dialect well enough for both.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use angelia_testkit::{
    isolated_home::IsolatedHome,
    model_server::{DEFAULT_TEXT, Fault, ModelServer, Reply},
    real::RealClaude,
    stream_json::StreamJsonDriver,
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(50);

/// The fields are in drop order: the program before the home it writes to.
struct ClaudeDriverFixture {
    driver: StreamJsonDriver,
    server: ModelServer,
    place: IsolatedHome,
}

impl ClaudeDriverFixture {
    fn start(claude: &RealClaude, extra: &[&str]) -> Self {
        Self::start_with(claude, extra, |place, url| {
            let mut environment = place.agent_environment(url);
            environment.push(("CLAUDE_CODE_MAX_RETRIES".into(), "1".into()));
            environment
        })
    }

    fn start_with(
        claude: &RealClaude,
        extra: &[&str],
        environment: impl Fn(&IsolatedHome, &str) -> Vec<(std::ffi::OsString, std::ffi::OsString)>,
    ) -> Self {
        let server = ModelServer::start().unwrap();
        let place = IsolatedHome::new().unwrap();
        let mut arguments = RealClaude::stream_arguments();
        arguments.push("--include-partial-messages");
        arguments.extend(extra);
        let environment = environment(&place, &server.base_url());
        let driver =
            StreamJsonDriver::start(&claude.path, arguments, environment, &place.work_dir())
                .unwrap();
        Self { driver, server, place }
    }

    async fn turn(&mut self, text: &str) -> Vec<Value> {
        self.driver.send_prompt(text).await.unwrap();
        self.driver.read_result(DEADLINE).await.unwrap()
    }
}

fn outcome(lines: &[Value]) -> &Value {
    lines.last().unwrap()
}

fn deltas(lines: &[Value], field: &str) -> String {
    lines.iter().filter_map(|line| line["event"]["delta"][field].as_str()).collect()
}

#[tokio::test]
async fn real_text_turns_on_one_process() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture = ClaudeDriverFixture::start(&claude, &[]);
        let first = fixture.turn("hello").await;
        assert!(first.iter().any(|line| line["subtype"] == "init"));
        assert_eq!(deltas(&first, "text"), DEFAULT_TEXT);
        assert_eq!(outcome(&first)["result"], DEFAULT_TEXT);
        assert_eq!(outcome(&first)["usage"]["cache_read_input_tokens"], 3000);
        assert_eq!(outcome(&first)["usage"]["cache_creation_input_tokens"], 120);

        let second = fixture.turn("ECHO:again, please").await;
        assert_eq!(outcome(&second)["result"], "again, please");
        let third = fixture.turn("THINK WORDS:5:2").await;
        assert_eq!(deltas(&third, "text"), "w0 w1 w2 w3 w4 ");
        assert_eq!(deltas(&third, "thinking"), "Let me think.");

        fixture.server.script([Reply::text("scripted")]);
        let fourth = fixture.turn("ECHO:not this").await;
        assert_eq!(outcome(&fourth)["result"], "scripted");

        let requests = fixture.server.model_requests();
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[1].prompt(), "ECHO:again, please");
        assert!(requests[0].model().starts_with("claude-"));
        assert!(requests[0].header("x-api-key").unwrap().contains("dummy"));
        assert_eq!(fixture.driver.close().await.unwrap(), Some(0));
    }
}

#[tokio::test]
async fn real_tool_round_with_a_permission() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture =
            ClaudeDriverFixture::start(&claude, &["--permission-prompt-tool", "stdio"]);
        let call = json!({"name": "Bash",
            "input": {"command": "mkdir made-here", "description": "make a folder"}});
        fixture.driver.send_prompt(&format!("TOOL:{call}:END ECHO:it is done")).await.unwrap();
        let asked = |line: &Value| line["request"]["subtype"] == "can_use_tool";
        let lines = fixture.driver.read_until(DEADLINE, asked).await.unwrap();
        let request = outcome(&lines);
        assert_eq!(request["request"]["input"]["command"], "mkdir made-here");
        let answer = json!({"behavior": "allow", "updatedInput": request["request"]["input"]});
        fixture.driver.send_control_response(&request["request_id"], answer).await.unwrap();
        let lines = fixture.driver.read_result(DEADLINE).await.unwrap();
        assert_eq!(outcome(&lines)["result"], "it is done");
        assert!(fixture.place.work_dir().join("made-here").is_dir());
    }
}

#[tokio::test]
async fn real_rounds_of_harmless_tools() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture = ClaudeDriverFixture::start(&claude, &[]);
        let lines = fixture.turn("ROUNDS:3").await;
        assert_eq!(outcome(&lines)["result"], "Tool finished; is_error=false.");
        assert_eq!(fixture.server.model_requests().len(), 4);
    }
}

#[tokio::test]
async fn real_statuses() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture = ClaudeDriverFixture::start(&claude, &[]);
        for (prompt, status, error) in [
            ("STATUS:401", 401, "authentication_failed"),
            ("STATUS:403", 403, "authentication_failed"),
            ("STATUS:529", 529, "server_error"),
            (
                "STATUS:400 ECHO:Your credit balance is too low to access the API",
                400,
                "billing_error",
            ),
        ] {
            let lines = fixture.turn(prompt).await;
            assert_eq!(outcome(&lines)["is_error"], true, "{prompt}");
            assert_eq!(outcome(&lines)["api_error_status"], status, "{prompt}");
            let failed = lines.iter().rfind(|line| line["type"] == "assistant").unwrap();
            assert_eq!(failed["error"], error, "{prompt}");
        }
        let lines = fixture.turn("STATUS:500:1").await;
        assert_eq!(outcome(&lines)["result"], DEFAULT_TEXT);
    }
}

#[tokio::test]
async fn real_subscription_limit() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture =
            ClaudeDriverFixture::start_with(&claude, &[], IsolatedHome::subscription_environment);
        let lines = fixture.turn("LIMIT:1900000000").await;
        let event = lines.iter().find(|line| line["type"] == "rate_limit_event").unwrap();
        assert_eq!(event["rate_limit_info"]["status"], "rejected");
        assert_eq!(event["rate_limit_info"]["resetsAt"], 1_900_000_000);
        assert_eq!(event["rate_limit_info"]["rateLimitType"], "five_hour");
        assert_eq!(outcome(&lines)["api_error_status"], 429);
        let lines = fixture.turn("LIMIT_WARNING").await;
        let event = lines.iter().find(|line| line["type"] == "rate_limit_event").unwrap();
        assert_eq!(event["rate_limit_info"]["status"], "allowed_warning");
    }
}

#[tokio::test]
async fn real_broken_streams() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture = ClaudeDriverFixture::start(&claude, &[]);
        let lines = fixture.turn("CUT:1 ECHO:whole").await;
        assert_eq!(deltas(&lines, "text").split(' ').next(), Some("partial"));
        assert_eq!(outcome(&lines)["result"], "whole");
        for prompt in ["MALFORMED", "HTML", "EMPTY"] {
            let lines = fixture.turn(prompt).await;
            assert_eq!(outcome(&lines)["is_error"], true, "{prompt}");
        }
    }
}

#[tokio::test]
async fn real_interrupt_of_a_hanging_model() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture = ClaudeDriverFixture::start(&claude, &[]);
        for (fault, count) in [(Fault::HangHeaders, 1), (Fault::HangBody, 2)] {
            fixture.server.script([Reply::fault(fault)]);
            fixture.driver.send_prompt("hello").await.unwrap();
            fixture.server.wait_for_model_requests(count, DEADLINE).await.unwrap();
            fixture
                .driver
                .send_control_request("i", json!({"subtype": "interrupt"}))
                .await
                .unwrap();
            let lines = fixture.driver.read_result(DEADLINE).await.unwrap();
            assert_eq!(outcome(&lines)["terminal_reason"], "aborted_streaming");
            let deadline = Instant::now() + DEADLINE;
            while fixture.server.abandoned_count() < count {
                assert!(Instant::now() < deadline, "the connection stays open");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

#[tokio::test]
async fn real_ends_of_a_message() {
    for claude in RealClaude::all().unwrap() {
        let mut fixture = ClaudeDriverFixture::start(&claude, &[]);
        fixture.turn("REFUSE").await;
        let lines = fixture.turn("MAXTOK ECHO:first").await;
        assert_eq!(outcome(&lines)["is_error"], false);
        assert!(fixture.server.requests().iter().all(|request| request.path != "/unknown"));
    }
}
