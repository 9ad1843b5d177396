//! A real model on loopback: llama.cpp's server with a model of 135 million parameters, both
//! installed by `cargo xtask setup`, in a separate process. It supports all three APIs of the
//! built-in loop.

use std::{
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::{
    plain_http::{self, PlainResponse},
    script_server::ScriptServer,
};

/// The name of the model in requests. The server has only one model and accepts any name.
pub const MODEL: &str = "smollm2";

/// Loading takes a second on a quiet machine.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// The running server. Dropping it ends its process.
#[derive(Debug)]
pub struct LlamaServer {
    process: ScriptServer,
    address: SocketAddr,
}

impl LlamaServer {
    /// Starts the server with a window of `window` tokens and waits until the model is loaded.
    pub fn start(window: u32) -> Result<Self> {
        let process = ScriptServer::start_python("llama", "llama_server.py", [window.to_string()])?;
        let this = Self { address: process.address(), process };
        this.wait_until_ready()?;
        Ok(this)
    }

    fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while !self.get("/health").is_ok_and(|response| response.status == 200) {
            if Instant::now() > deadline {
                bail!("llama.cpp's server was not ready within {READY_TIMEOUT:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn get(&self, path: &str) -> Result<PlainResponse> {
        self.request("GET", path, &Value::Null)
    }

    /// Returns the number of tokens in a text.
    pub fn count_tokens(&self, text: &str) -> Result<usize> {
        let counted = self.request("POST", "/tokenize", &json!({"content": text}))?;
        let tokens = counted.body["tokens"].as_array();
        Ok(tokens.with_context(|| format!("no tokens: {counted:?}"))?.len())
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Result<PlainResponse> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(READY_TIMEOUT))?;
        let headers = format!("host: {}\r\n", self.address);
        let request = plain_http::request_text(method, path, &headers, body);
        Ok(plain_http::exchange(stream, &request))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the base URL for clients that add the version themselves (Messages).
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL for clients that expect the version in it (Chat and Responses).
    pub fn openai_base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}
