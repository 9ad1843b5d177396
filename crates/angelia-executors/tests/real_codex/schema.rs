//! Everything we use of the protocol is in the schema that the installed version generates.

use std::{fs, path::Path, process::Command};

use angelia_executors::codex::protocol::schema_check;
use angelia_testkit::{isolated_home::IsolatedHome, real::RealCodex};
use serde_json::Value;

fn read(folder: &Path, name: &str) -> Value {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn real_the_schema_has_everything_that_is_used() {
    let codex = RealCodex::find().unwrap();
    let place = IsolatedHome::new().unwrap();
    for experimental in [false, true] {
        let folder = place.root().join(format!("schema-{experimental}"));
        #[expect(clippy::disallowed_methods, reason = "a short command of the test's own")]
        let mut command = Command::new(&codex.path);
        command.args(["app-server", "generate-json-schema", "--out"]).arg(&folder);
        if experimental {
            command.arg("--experimental");
        }
        command.env_clear().envs(place.environment());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let bundle = read(&folder, "codex_app_server_protocol.v2.schemas.json");
        let requests = read(&folder, "ServerRequest.json");
        let missing = schema_check::missing_names(&bundle, &requests, experimental);
        assert_eq!(missing, Vec::<String>::new(), "experimental: {experimental}");
        if experimental {
            // Messages that only the process handling needs.
            let turn = &bundle["definitions"]["TurnStartParams"]["properties"];
            assert!(turn.get("permissions").is_some() && turn.get("approvalPolicy").is_some());
            let thread = &bundle["definitions"]["ThreadStartParams"]["properties"];
            assert!(thread.get("environments").is_some());
        }
        let calls = bundle["definitions"]["ClientRequest"].to_string();
        for call in ["config/read", "skills/list"] {
            assert!(calls.contains(&format!("\"{call}\"")), "{call}");
        }
    }
}
