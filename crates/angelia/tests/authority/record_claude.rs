//! Records Claude Code: in its accept-edits mode what it does by itself, and in the mode in which we
//! run it the permission request.

use std::{ffi::OsString, path::Path, time::Duration};

use angelia_testkit::{
    isolated_home::IsolatedHome,
    model_server::{ModelServer, directive::tool_call_directive},
    real::{CLAUDE_KEY, RealClaude},
    stream_json::StreamJsonDriver,
};
use serde_json::{Value, json};

use crate::cases::{self, RecordedCase, Recording, Verdict};

const DEADLINE: Duration = Duration::from_mins(1);

fn start(
    claude: &RealClaude,
    place: &IsolatedHome,
    base_url: &str,
    mode: &str,
) -> StreamJsonDriver {
    let mut arguments = RealClaude::stream_arguments();
    let options =
        ["--permission-prompt-tool", "stdio", "--permission-mode", mode, "--model", "sonnet"];
    arguments.extend(options);
    let mut environment: Vec<(OsString, OsString)> = place.environment().into_iter().collect();
    let variables = RealClaude::variables(place, base_url).into_iter();
    environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
    environment.push(("ANTHROPIC_API_KEY".into(), CLAUDE_KEY.into()));
    StreamJsonDriver::start(&claude.path, arguments, environment, &place.work_dir()).unwrap()
}

/// Has the model make one call, denies it if the program asks, and returns the verdict with the
/// request.
async fn observe(driver: &mut StreamJsonDriver, call: &str) -> (Verdict, Option<Value>) {
    driver.send_prompt(call).await.unwrap();
    let mut request = None;
    let mut failed = false;
    loop {
        let ends = |line: &Value| line["type"] == "result" || line["type"] == "control_request";
        let lines = driver.read_until(DEADLINE, ends).await.unwrap();
        let blocks = lines.iter().filter_map(|line| line["message"]["content"].as_array());
        failed |= blocks.flatten().any(|block| block["is_error"] == true);
        let last = lines.last().unwrap();
        if last["type"] == "result" {
            let verdict = match (&request, failed) {
                (Some(_), _) => Verdict::Asked,
                (None, true) => Verdict::Refused,
                (None, false) => Verdict::Ran,
            };
            return (verdict, request);
        }
        assert_eq!(last["request"]["subtype"], "can_use_tool", "{last}");
        let deny = json!({"behavior": "deny", "message": "not in this recording"});
        driver.send_control_response(&last["request_id"], deny).await.unwrap();
        request = Some(last["request"].clone());
    }
}

fn call(target: &str, is_command: bool, root: &Path) -> String {
    let target = cases::fill_in(target, is_command, root);
    if is_command {
        tool_call_directive("Bash", &json!({"command": target, "description": "d"}))
    } else {
        tool_call_directive("Write", &json!({"file_path": target, "content": "x"}))
    }
}

#[tokio::test]
#[ignore = "writes fixtures/permissions"]
async fn real_record_claude() {
    for claude in RealClaude::all().unwrap() {
        let server = ModelServer::start().unwrap();
        let place = IsolatedHome::new().unwrap();
        let root = place.work_dir().parent().unwrap().canonicalize().unwrap();
        cases::lay_out(&root);
        let mut accepting = start(&claude, &place, &server.base_url(), "acceptEdits");
        let mut asking = start(&claude, &place, &server.base_url(), "default");
        let mut recorded = Vec::new();
        for (target, is_command) in cases::all() {
            let call = call(target, is_command, &root);
            cases::lay_out(&root);
            let (verdict, _) = observe(&mut accepting, &call).await;
            cases::lay_out(&root);
            let (_, request) = observe(&mut asking, &call).await;
            let request = request.map(|request| cases::take_out(&request, &root));
            recorded.push(RecordedCase { target: target.to_owned(), is_command, verdict, request });
        }
        cases::save(&Recording {
            program: "claude".to_owned(),
            version: claude.version.to_owned(),
            mode: "acceptEdits".to_owned(),
            cases: recorded,
        });
        accepting.close().await.unwrap();
        asking.close().await.unwrap();
    }
}
