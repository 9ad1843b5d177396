//! A real model on loopback: llama.cpp's server with a model of 135 million parameters, as `cargo
//! xtask setup` installs them, in a process of its own. It speaks all three APIs of our own loop.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::{
    isolated_home::IsolatedHome,
    plain_http::{self, PlainResponse},
    programs,
};

/// The name of the model in requests; the server has only one and takes any name.
pub const MODEL: &str = "smollm2";

/// Loading takes a second on a quiet machine.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// The running server. Dropping it ends its process.
#[derive(Debug)]
pub struct LlamaServer {
    child: Child,
    /// The process ends by itself when this is closed, also if the test is killed.
    _stdin: Option<ChildStdin>,
    address: SocketAddr,
    _home: IsolatedHome,
}

impl LlamaServer {
    /// Starts the server with a window of `window` tokens and waits until the model is loaded.
    #[expect(clippy::disallowed_methods, reason = "starting the server is this module's purpose")]
    pub fn start(window: u32) -> Result<Self> {
        let python = programs::workspace_root().join("target/python/llama/bin/python");
        if !python.is_file() {
            bail!("{} is not installed; run `cargo xtask setup`", python.display());
        }
        let home = IsolatedHome::new()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/llama_server.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(window.to_string())
            .env_clear()
            .envs(home.environment())
            .current_dir(home.work_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start llama.cpp's server")?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut stderr = child.stderr.take().context("no stderr")?;
        // Its log must be read, or the server stops at a full pipe.
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            let _ended = stderr.read_to_end(&mut log);
            String::from_utf8_lossy(&log).into_owned()
        });
        let mut line = String::new();
        let address = loop {
            line.clear();
            if stdout.read_line(&mut line)? == 0 {
                child.wait()?;
                bail!("llama.cpp's server did not start: {}", log.join().unwrap_or_default());
            }
            if let Some(address) = line.trim().strip_prefix("http://") {
                break address.parse().context("not an address")?;
            }
        };
        std::thread::spawn(move || {
            let _ended = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        let this = Self { child, _stdin: stdin, address, _home: home };
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

    /// Returns the number of tokens of a text.
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

    pub fn pid(&self) -> u32 {
        self.child.id()
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

impl Drop for LlamaServer {
    fn drop(&mut self) {
        // The process has nothing to save, and it may have ended already.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}
