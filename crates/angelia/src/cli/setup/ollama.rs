//! Ollama: a provider and a profile for one of its models.

use super::local_server::{LocalServer, server_client};

pub(super) const SERVER: LocalServer = LocalServer {
    client: server_client!("ollama"),
    title: "Ollama",
    start: "`ollama serve` starts it",
    fetch: "`ollama pull MODEL` fetches one; `ollama list` shows what is there",
    window: "Ollama cuts long conversations silently at its own window, which is small unless you set it: \
             start it with OLLAMA_CONTEXT_LENGTH=32768, or give the model a `num_ctx`",
};
