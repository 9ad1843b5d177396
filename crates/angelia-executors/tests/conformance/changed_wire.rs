//! Every check of the self-test notices when a new version changes the wire: the real Claude Code, with a
//! script between it and us that changes what passes.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{
    Registration, claude,
    selftest::{AgentProgram, CHECKS, CheckOutcome, CheckResult},
};
use angelia_testkit::{
    conformance::executor::ExecutorFixture as _, isolated_home::IsolatedHome, real::RealClaude,
};

use crate::scripted::{RealFixture, ScriptedProgram};

/// The change that the script makes.
#[derive(Clone, Copy)]
struct WireChange {
    /// A shell command that changes an argument, `x`.
    argument: &'static str,
    /// For `sed`: the lines for the program, and the lines from it.
    input: &'static str,
    output: &'static str,
}

const UNCHANGED: WireChange = WireChange { argument: ":", input: "", output: "" };

struct ChangedClaude(PathBuf);

impl ScriptedProgram for ChangedClaude {
    fn registration(&self) -> &'static Registration {
        &claude::REGISTRATION
    }

    fn program(&self) -> AgentProgram {
        AgentProgram { binary: Some(self.0.clone()), command: Vec::new() }
    }

    fn spec_without_login(&self, place: &IsolatedHome, _base_url: &str) -> SessionSpec {
        SessionSpec::new("claude", place.work_dir())
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool {
        RealClaude::has_record(place, native.as_str())
    }
}

async fn run(check: &str, change: WireChange) -> CheckResult {
    let place = IsolatedHome::new().unwrap();
    let path = place.root().join("changed-claude");
    let real = RealClaude::newest().unwrap().path;
    let WireChange { argument, input, output } = change;
    let script = format!(
        "#!/bin/bash\n\
         case \" $* \" in *\" -p \"*) ;; *) exec '{real}' \"$@\" ;; esac\n\
         declare -a a; for x in \"$@\"; do {argument}; a+=(\"$x\"); done\n\
         sed -u -e '{input}' | '{real}' \"${{a[@]}}\" | sed -u -e '{output}'\n",
        real = real.display(),
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let fixture = RealFixture::new(ChangedClaude(path));
    let check = CHECKS.iter().find(|one| one.id == check).unwrap();
    let result = (check.run)(fixture.agent()).await;
    fixture.executor().close().await;
    result
}

macro_rules! notices {
    ($($name:ident, $check:literal, $change:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let changed = run($check, $change).await;
                assert!(changed.is_err(), "{changed:?}");
                let unchanged = run($check, UNCHANGED).await;
                assert_eq!(unchanged, Ok(CheckOutcome::Passed));
            }
        )*
    };
}

notices! {
    real_another_name_of_deltas, "streamed_answer",
        WireChange { output: r#"s/"text_delta"/"text_piece"/g"#, ..UNCHANGED };
    real_another_name_of_the_permission_request, "approval",
        WireChange { output: r#"s/"can_use_tool"/"may_use_tool"/"#, ..UNCHANGED };
    real_another_name_of_the_content, "edit_diff",
        WireChange { output: r#"s/"content":"written by/"body":"written by/g"#, ..UNCHANGED };
    real_an_interrupt_that_is_ignored, "interrupt",
        WireChange { input: r#"/"subtype":"interrupt"/d"#, ..UNCHANGED };
    real_another_option_for_resuming, "resume",
        WireChange { argument: "x=${x/#--resume/--session-id}", ..UNCHANGED };
    real_an_error_without_its_words, "model_error",
        WireChange { output: "s/scripted model rejects/request was odd/g", ..UNCHANGED };
    real_another_name_of_the_usage, "usage",
        WireChange { output: r#"s/"usage":/"used":/g; s/modelUsage/modelUsed/g; s/model_usage/model_used/g"#, ..UNCHANGED };
    real_another_name_of_the_callers_tool, "caller_tools",
        WireChange { output: "s/mcp__client__/mcp__other__/g; s/lookup/lookdown/g", ..UNCHANGED };
    real_a_prompt_that_is_dropped, "sealed_model_mode",
        WireChange { input: "s/MARK-OF-THE-ONLY-PROMPT/MARK-OF-THE-OWNER/g", argument: "x=${x//MARK-OF-THE-ONLY-PROMPT/MARK-OF-THE-OWNER}", output: "" };
}
