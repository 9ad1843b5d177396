//! Clients of the Messages API.

use crate::bench::{Bench, on_both};

on_both! {
    python |bench| bench.everything("anthropic_sdk.py");
    typescript |bench| bench.everything("anthropic_sdk.mjs");
    litellm |bench| bench.everything("litellm_messages.py");
    langchain |bench| bench.everything("langchain_messages.py");
    ai_sdk |bench| bench.everything("ai_sdk_messages.mjs");
    conversation super::a_conversation_costs_what_it_must;
}

/// Three turns, sent as a stateless client sends them, give three model requests and one process.
fn a_conversation_costs_what_it_must(bench: Bench) {
    bench.script("anthropic_sdk.py", &["conversation"]);
    assert_eq!(bench.asked().len(), 3);
    assert_eq!(bench.agents(), 1);
    bench.end();
}
