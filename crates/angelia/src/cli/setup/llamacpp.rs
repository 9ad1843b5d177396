//! llama.cpp: a provider and a profile for the model that the server has loaded.

use super::local_server::{LocalServer, server_client};

pub(super) const SERVER: LocalServer = LocalServer {
    client: server_client!("llamacpp"),
    title: "llama.cpp",
    start: "`llama-server -m MODEL.gguf --jinja` starts it",
    fetch: "start it with a model: `llama-server -m MODEL.gguf --jinja`",
    window: "its window is what it was started with (`-c`); tools need a model that knows them, and \
             `--jinja`",
};
