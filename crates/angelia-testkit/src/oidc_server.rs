//! A real OAuth server on loopback, installed by `cargo xtask setup`, with one public client whose
//! refresh tokens are valid only once. It also plays the person who confirms a code.

use std::net::TcpStream;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    plain_http::{PlainResponse, exchange, request_text},
    programs,
    real::{platform, require_installed},
    script_server::{ScriptServer, script},
};

/// The folder of `tests/npm` with the server and its Node.js.
const GROUP: &str = "oidc";

#[derive(Debug)]
pub struct OidcServer {
    process: ScriptServer,
}

impl OidcServer {
    pub const CLIENT_ID: &str = "angelia-test";
    pub const SCOPE: &str = "openid offline_access";

    /// Starts a server whose access tokens live for this long.
    pub fn start(lifetime_seconds: u64) -> Result<Self> {
        let node = format!("{GROUP}/node_modules/node-{}/bin/node", platform());
        let node = require_installed(&node)?;
        let packages = programs::workspace_root().join("target/npm").join(GROUP);
        let arguments = [
            script("oidc_server.mjs").into_os_string(),
            packages.into_os_string(),
            lifetime_seconds.to_string().into(),
        ];
        Ok(Self { process: ScriptServer::start(&node, arguments)? })
    }

    pub fn issuer(&self) -> String {
        format!("http://{}", self.process.address())
    }

    /// Returns the address at which tokens are issued.
    pub fn token_url(&self) -> String {
        format!("{}/token", self.issuer())
    }

    /// Confirms a code, like the person at the browser.
    pub fn approve(&self, user_code: &str) -> Result<()> {
        self.ask(&format!("/_test/approve/{user_code}")).map(|_| ())
    }

    /// Declines a code.
    pub fn deny(&self, user_code: &str) -> Result<()> {
        self.ask(&format!("/_test/deny/{user_code}")).map(|_| ())
    }

    /// Logs a person in, and returns the refresh token.
    pub fn refresh_token(&self) -> Result<String> {
        let tokens = self.ask("/_test/login")?;
        Ok(tokens["refresh_token"].as_str().context("no refresh token")?.to_owned())
    }

    /// Returns one of the server's counters: `device`, `polls`, `refreshes`, `refused`.
    pub fn seen(&self, what: &str) -> Result<u64> {
        self.ask("/_test/seen")?[what].as_u64().context("not counted")
    }

    /// Returns whether the server has issued this access token.
    pub fn accepts(&self, access_token: &str) -> Result<bool> {
        let header = format!("authorization: Bearer {access_token}\r\n");
        Ok(self.get("/me", &header)?.status == 200)
    }

    fn ask(&self, path: &str) -> Result<Value> {
        let response = self.get(path, "")?;
        ensure!(response.status == 200, "{path}: {}", response.text);
        Ok(response.body)
    }

    fn get(&self, path: &str, headers: &str) -> Result<PlainResponse> {
        let address = self.process.address();
        let headers = format!("host: {address}\r\n{headers}");
        let stream = TcpStream::connect(address)?;
        Ok(exchange(stream, &request_text("GET", path, &headers, &Value::Null)))
    }
}
