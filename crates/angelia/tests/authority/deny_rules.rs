//! `disallowed_tools` holds on every agent, also where nobody is asked.

use std::fs;

use angelia_core::model::PermissionLevel;

use crate::engine_lab::{EngineLab, RealAgent, prompt};

#[tokio::test]
async fn real_a_denied_command_does_not_run() {
    for agent in RealAgent::all() {
        let lab = EngineLab::new(&agent);
        fs::write(lab.path("kept"), "").unwrap();
        let mut spec = lab.spec(PermissionLevel::Unattended);
        spec.permissions.disallowed =
            vec!["Bash(rm *)".parse().unwrap(), "shell(rm *)".parse().unwrap()];
        let session = lab.session(spec).await;
        for command in
            ["rm kept", "/bin/rm kept", "sh -c 'rm kept'", "$(echo rm) kept", "rm${IFS}kept"]
        {
            let turn = lab.turn(session, false, &prompt(&agent.run(command))).await;
            assert!(lab.path("kept").exists(), "{command}: {:#?}", turn.0);
        }
        let turn = lab.turn(session, false, &prompt(&agent.run("touch made"))).await;
        assert!(lab.path("made").exists(), "{:#?}", turn.0);
        lab.close().await;
    }
}
