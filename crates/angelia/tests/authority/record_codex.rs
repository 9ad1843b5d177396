//! Records Codex in its own mode for editing: the sandbox of the workspace, with requests to leave it.

use std::{ffi::OsString, path::Path, time::Duration};

use angelia_testkit::{
    codex_home::{self, CodexLogin},
    isolated_home::IsolatedHome,
    model_server::{ModelServer, directive::tool_call_directive},
    real::RealCodex,
    stream_json::StreamJsonDriver,
};
use serde_json::{Value, json};

use crate::cases::{self, RecordedCase, Recording, Verdict};

const DEADLINE: Duration = Duration::from_mins(1);

struct Thread {
    driver: StreamJsonDriver,
    id: String,
    calls: u64,
}

impl Thread {
    async fn start(codex: &RealCodex, place: &IsolatedHome, home: &Path, cwd: &Path) -> Self {
        let mut environment: Vec<(OsString, OsString)> = place.environment().into_iter().collect();
        environment.push(("CODEX_HOME".into(), home.into()));
        environment.push((codex_home::KEY_VARIABLE.into(), "dummy".into()));
        let arguments = ["app-server", "-c", "features.plugins=false"];
        let driver = StreamJsonDriver::start(&codex.path, arguments, environment, cwd).unwrap();
        let mut thread = Self { driver, id: String::new(), calls: 0 };
        let client = json!({"clientInfo": {"name": "recorder", "version": "0"},
            "capabilities": {"experimentalApi": true}});
        thread.call("initialize", client).await;
        thread.driver.send(&json!({"method": "initialized"})).await.unwrap();
        let started =
            json!({"cwd": cwd, "permissions": ":workspace", "approvalPolicy": "on-request"});
        let started = thread.call("thread/start", started).await;
        started["thread"]["id"].as_str().unwrap().clone_into(&mut thread.id);
        thread
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let request = json!({"id": id, "method": method, "params": params});
        self.driver.send(&request).await.unwrap();
        let is_response = |line: &Value| line["id"] == id && line["method"].is_null();
        let lines = self.driver.read_until(DEADLINE, is_response).await.unwrap();
        lines.last().unwrap()["result"].clone()
    }

    async fn observe(&mut self, prompt: &str) -> Verdict {
        self.calls += 1;
        let input = json!([{"type": "text", "text": prompt}]);
        let turn = json!({"id": self.calls, "method": "turn/start",
            "params": {"threadId": self.id, "input": input}});
        self.driver.send(&turn).await.unwrap();
        let (mut asked, mut ran) = (false, false);
        loop {
            let stops = |line: &Value| {
                let method = line["method"].as_str().unwrap_or_default();
                method == "turn/completed" || (!line["id"].is_null() && !method.is_empty())
            };
            let lines = self.driver.read_until(DEADLINE, stops).await.unwrap();
            ran |= lines.iter().any(|line| {
                let item = &line["params"]["item"];
                let is_call = item["type"] == "commandExecution" || item["type"] == "fileChange";
                line["method"] == "item/completed" && is_call && item["status"] == "completed"
            });
            let last = lines.last().unwrap();
            if last["method"] == "turn/completed" {
                return match (asked, ran) {
                    (true, _) => Verdict::Asked,
                    (false, true) => Verdict::Ran,
                    (false, false) => Verdict::Refused,
                };
            }
            asked = true;
            let decline = json!({"id": last["id"], "result": {"decision": "decline"}});
            self.driver.send(&decline).await.unwrap();
        }
    }
}

fn call(target: &str, is_command: bool, root: &Path) -> String {
    let target = cases::fill_in(target, is_command, root);
    if is_command {
        return tool_call_directive("exec_command", &json!({"cmd": target}));
    }
    let patch = format!("*** Begin Patch\n*** Add File: {target}\n+x\n*** End Patch");
    tool_call_directive("apply_patch", &json!(patch))
}

#[tokio::test]
#[ignore = "writes fixtures/permissions"]
async fn real_record_codex() {
    let codex = RealCodex::find().unwrap();
    let server = ModelServer::start().unwrap();
    let place = IsolatedHome::new().unwrap();
    // `/tmp` and `$TMPDIR` are inside the sandbox.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = folder.path().canonicalize().unwrap();
    let home = root.join("codex");
    codex_home::create(home.clone(), &server.base_url(), CodexLogin::Key, "").unwrap();
    cases::lay_out(&root);
    let mut thread = Thread::start(&codex, &place, &home, &root.join("work")).await;
    let mut recorded = Vec::new();
    for (target, is_command) in cases::all() {
        cases::lay_out(&root);
        let verdict = thread.observe(&call(target, is_command, &root)).await;
        recorded.push(RecordedCase {
            target: target.to_owned(),
            is_command,
            verdict,
            request: None,
        });
    }
    cases::save(&Recording {
        program: "codex".to_owned(),
        version: codex.version.to_owned(),
        mode: ":workspace, on-request".to_owned(),
        cases: recorded,
    });
}
