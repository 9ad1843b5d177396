//! Logs in with a code: the person enters the code on a web page, and we poll the server until that
//! is done.

use std::{sync::Arc, time::Duration};

use angelia_core::model::{Failure, FailureKind};
use tokio::time::{Instant, sleep};

use super::{
    OAuthSettings,
    discovery::LoginAddresses,
    login_file::{Login, LoginFile},
    read_token,
};
use crate::{
    ExecutorHost,
    native::providers::token_request::{TokenReply, post_form},
};

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The default polling interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// Added to the interval when the server says that we poll too often.
const SLOWER: Duration = Duration::from_secs(5);

/// The default lifetime of a code.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(15);

/// The code of a login, and the pages where a person confirms it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    pub user_code: Arc<str>,
    /// The page where the code is entered.
    pub page: Arc<str>,
    /// The same page with the code in it.
    pub page_with_code: Option<Arc<str>>,
    pub lifetime: Duration,
}

/// A login that waits for the person to confirm it.
#[derive(Debug)]
pub struct PendingLogin {
    pub code: DeviceCode,
    device_code: String,
    interval: Duration,
    addresses: LoginAddresses,
    settings: OAuthSettings,
}

/// Begins a login.
pub async fn begin_login(settings: &OAuthSettings) -> Result<PendingLogin, Failure> {
    let unavailable = |message: String| {
        let target = &settings.target;
        let message = format!("the login to {target} did not begin: {message}");
        let hint = format!("check `oauth` of {} in config.yaml", target.block());
        Failure::new(FailureKind::Unavailable, message).with_hint(hint)
    };
    let addresses = settings.addresses().await.map_err(unavailable)?;
    let mut form = vec![("client_id", &*settings.client_id)];
    form.extend(addresses.resource.as_deref().map(|resource| ("resource", resource)));
    form.extend(settings.scope.as_deref().map(|scope| ("scope", scope)));
    let reply = post_form(&addresses.device_url, &form).await.map_err(unavailable)?;
    let text = |name: &str| reply.body[name].as_str().map(str::to_owned);
    let seconds = |name: &str| reply.body[name].as_u64().map(Duration::from_secs);
    let (Some(device_code), Some(user_code), Some(page)) =
        (text("device_code"), text("user_code"), text("verification_uri"))
    else {
        return Err(unavailable(reply.complaint()));
    };
    let code = DeviceCode {
        user_code: user_code.into(),
        page: page.into(),
        page_with_code: text("verification_uri_complete").map(Into::into),
        lifetime: seconds("expires_in").unwrap_or(DEFAULT_LIFETIME),
    };
    let interval = seconds("interval").unwrap_or(DEFAULT_INTERVAL);
    Ok(PendingLogin { code, device_code, interval, addresses, settings: settings.clone() })
}

/// The server's answer about a pending login.
#[derive(Debug, PartialEq, Eq)]
enum LoginProgress {
    Waiting,
    TooOften,
    Ended(&'static str),
    Refused(String),
}

impl PendingLogin {
    /// Waits for the person to confirm the login, and stores it.
    pub async fn finish(mut self, host: &ExecutorHost) -> Result<(), Failure> {
        let failed = |message: String| {
            let message = format!("the login to {} failed: {message}", self.settings.target);
            Failure::new(FailureKind::Auth, message).with_hint("begin it again")
        };
        let until = Instant::now() + self.code.lifetime;
        loop {
            sleep(self.interval).await;
            if Instant::now() >= until {
                return Err(failed("the code was not confirmed in time".to_owned()));
            }
            let mut form = vec![
                ("grant_type", DEVICE_GRANT),
                ("device_code", &*self.device_code),
                ("client_id", &*self.settings.client_id),
            ];
            let resource = self.addresses.resource.as_deref();
            form.extend(resource.map(|resource| ("resource", resource)));
            let reply = match post_form(&self.addresses.token_url, &form).await {
                Ok(reply) if reply.is_success() => reply,
                Ok(reply) => match progress(&reply) {
                    LoginProgress::Waiting => continue,
                    LoginProgress::TooOften => {
                        self.interval += SLOWER;
                        continue;
                    }
                    LoginProgress::Ended(reason) => return Err(failed(reason.to_owned())),
                    LoginProgress::Refused(words) => return Err(failed(words)),
                },
                // The network may come back before the code expires.
                Err(_) => {
                    self.interval *= 2;
                    continue;
                }
            };
            return self.store(&reply, host).await.map_err(failed);
        }
    }

    async fn store(&self, reply: &TokenReply, host: &ExecutorHost) -> Result<(), String> {
        read_token(reply, host)?;
        let Some(refresh_token) = reply.body["refresh_token"].as_str() else {
            return Err(
                "the server issued no refresh token; many need `offline_access` in `scope`"
                    .to_owned(),
            );
        };
        host.redactor.add([refresh_token]);
        let file = LoginFile::of(&self.settings, &host.logins_dir());
        let login = Login {
            token_url: self.addresses.token_url.clone(),
            refresh_token: refresh_token.to_owned(),
            resource: self.addresses.resource.clone(),
        };
        file.lock().await?.write(&login)
    }
}

fn progress(reply: &TokenReply) -> LoginProgress {
    match reply.error() {
        Some("authorization_pending") => LoginProgress::Waiting,
        Some("slow_down") => LoginProgress::TooOften,
        Some("access_denied") => LoginProgress::Ended("it was declined"),
        Some("expired_token") => LoginProgress::Ended("the code was not confirmed in time"),
        _ => LoginProgress::Refused(reply.complaint()),
    }
}
