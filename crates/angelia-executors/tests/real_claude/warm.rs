//! The pool of processes that are started before they are needed.

use std::time::{Duration, Instant};

use angelia_core::model::{Mode, SessionSpec, SystemPrompt};
use angelia_testkit::direct_session::{DEADLINE, TurnOutput};
use angelia_testkit::real::RealClaude;

use crate::harness::ClaudeHarness;

/// Opens sessions until one uses a pooled process; the pool's state is not visible from outside.
async fn until_warm(lab: &ClaudeHarness, spec: &SessionSpec) -> TurnOutput {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut session = lab.open(spec).await;
        let heard = session.prompt("ECHO:warm").await;
        session.close().await;
        if heard.started().warm {
            return heard;
        }
        assert!(Instant::now() < deadline, "never warm");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn real_warm_processes_of_both_modes() {
    for claude in RealClaude::all().unwrap() {
        let lab = ClaudeHarness::keeping_warm(&claude);
        let mut spec = lab.spec();
        spec.warm = 1;
        lab.executor.warm_up(&spec);
        let first = until_warm(&lab, &spec).await;
        assert_eq!(first.answer(), "warm");
        assert_eq!(first.usage().lane.as_deref(), Some("api_key"));

        // Another profile with the same launch settings reports its own name.
        spec.profile = "other".into();
        let other = until_warm(&lab, &spec).await;
        assert_eq!(&*other.started().profile, "other");
        assert_ne!(other.native_session_id(), first.native_session_id());

        // In model mode the prompt comes with the request.
        spec.mode = Mode::Model;
        until_warm(&lab, &spec).await;
        spec.system = SystemPrompt::Replace("PROMPT-OF-THE-REQUEST".into());
        let heard = until_warm(&lab, &spec).await;
        assert_eq!(heard.answer(), "warm");
        assert_eq!(heard.usage().lane.as_deref(), Some("api_key"));
        let system = lab.last_request()["system"].to_string();
        assert!(system.contains("PROMPT-OF-THE-REQUEST"), "{system}");

        lab.executor.close().await;
        assert!(lab.host.tasks.shutdown(Duration::from_secs(10)).await);
        // A process that is just being started is killed; the kernel needs a moment for that.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !lab.processes().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", lab.processes());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
