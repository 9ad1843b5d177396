//! The pool of threads that are started before they are needed.

use angelia_core::model::SystemPrompt;
use angelia_testkit::direct_session::DEADLINE;
use tokio::time::Instant;

use crate::harness::CodexHarness;

#[tokio::test]
async fn real_a_started_thread_waits_for_the_next_session() {
    let lab = CodexHarness::with_warm_pool();
    let mut spec = lab.spec();
    spec.warm = 1;
    spec.system = SystemPrompt::Append("MARK-OF-THE-PROMPT".into());
    lab.executor.warm_up(&spec);
    let until = Instant::now() + DEADLINE;
    let mut natives = Vec::new();
    loop {
        let mut session = lab.open(&spec).await;
        let heard = session.prompt("ECHO:hello").await;
        assert_eq!(heard.answer(), "hello");
        assert!(!heard.started().resumed && heard.notices().is_empty());
        assert!(lab.last_request().to_string().contains("MARK-OF-THE-PROMPT"));
        assert!(!natives.contains(&heard.native_session_id()), "every session has its own");
        natives.push(heard.native_session_id());
        session.close().await;
        if heard.started().warm {
            break;
        }
        assert!(Instant::now() < until, "nothing is kept warm");
    }
    assert_eq!(lab.servers().len(), 1);

    // The text of one thread is not known in the next.
    let mut other = spec.clone();
    other.system = SystemPrompt::Append("ANOTHER-PROMPT".into());
    let mut session = lab.open(&other).await;
    session.prompt("ECHO:something else").await;
    let told = lab.last_request().to_string();
    assert!(told.contains("ANOTHER-PROMPT") && !told.contains("MARK-OF-THE-PROMPT"));
    session.close().await;
    lab.close().await;
}
