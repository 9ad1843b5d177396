//! Clients of the Messages API.

use crate::daemon_fixture::{DaemonFixture, on_both};

on_both! {
    python |bench| bench.run_whole_script("anthropic_sdk.py");
    typescript |bench| bench.run_whole_script("anthropic_sdk.mjs");
    litellm |bench| bench.run_whole_script("litellm_messages.py");
    langchain |bench| bench.run_whole_script("langchain_messages.py");
    ai_sdk |bench| bench.run_whole_script("ai_sdk_messages.mjs");
    conversation super::a_conversation_costs_what_it_must;
}

/// Three turns, sent as a stateless client sends them, give three model requests and one process.
fn a_conversation_costs_what_it_must(bench: DaemonFixture) {
    bench.script("anthropic_sdk.py", &["conversation"]);
    assert_eq!(bench.model_requests().len(), 3);
    assert_eq!(bench.agents(), 1);
    bench.end();
}
