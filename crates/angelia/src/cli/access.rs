//! `angelia access …`: who may talk by chat, besides the people listed in the configuration. Changes take
//! effect at once, because the daemon checks the same file for every message.

use angelia_backends::chats::SqliteChats;
use angelia_core::{model::AuditAction, ports::ChatStore as _};
use angelia_frontends::chat::PAIRING_LIFETIME;
use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json;

use super::{
    error::{CommandError, Exit},
    print,
};
use crate::{
    assemble::{App, HomeStore},
    config::ChannelName,
};

#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// List who may talk, and the codes that wait for your decision.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Let in the person who got this code. They may talk, but not decide approvals.
    Approve { code: String },
    /// Revoke a person's access.
    Revoke {
        /// PLATFORM:ID, as `access list` shows it.
        #[arg(value_name = "PLATFORM:ID")]
        who: String,
    },
}

pub(crate) async fn run(app: &App, command: AccessCommand) -> Result<Exit, CommandError> {
    app.home.prepare()?;
    let chats = SqliteChats::open(&app.home.chats_db())?;
    match command {
        AccessCommand::List { json } => list(app, &chats, json).await,
        AccessCommand::Approve { code } => approve(app, &chats, &code).await,
        AccessCommand::Revoke { who } => revoke(app, &chats, &who).await,
    }
}

/// Returns the time before which codes have expired.
fn oldest_code() -> Timestamp {
    let now = Timestamp::now();
    now.checked_sub(PAIRING_LIFETIME).unwrap_or(now)
}

async fn list(app: &App, chats: &SqliteChats, json: bool) -> Result<Exit, CommandError> {
    let mut rows = Vec::new();
    for (ChannelName(name), fields) in app.config.channels() {
        for id in &fields.allow {
            let who = format!("{name}:{}", id.0);
            let can_decide = fields.approvers.contains(id);
            rows.push((who, String::new(), "configuration", can_decide, None));
        }
    }
    for guest in chats.guests().await? {
        let who = format!("{}:{}", guest.platform, guest.id);
        rows.push((who, guest.name.to_string(), "approved", false, None));
    }
    for code in chats.codes(oldest_code()).await? {
        let who = format!("{}:{}", code.platform, code.sender);
        rows.push((who, code.name.to_string(), "asks", false, Some(code.code.to_string())));
    }
    let mut out = Vec::new();
    for (who, name, by, can_decide, code) in rows {
        if json {
            let row =
                json!({"id": who, "name": name, "by": by, "approver": can_decide, "code": code});
            print::json_line(&row, &mut out)?;
            continue;
        }
        let name = if name.is_empty() { name } else { format!(" {name}") };
        let what = match code {
            Some(code) => format!("asks to be let in: `angelia access approve {code}`"),
            None if can_decide => "may talk and decide (configuration)".to_owned(),
            None => format!("may talk ({by})"),
        };
        out.extend(format!("{who}{name}: {what}\n").bytes());
    }
    if out.is_empty() && !json {
        out.extend("nobody may talk by chat\n".bytes());
    }
    print::bytes(&out)
}

async fn approve(app: &App, chats: &SqliteChats, code: &str) -> Result<Exit, CommandError> {
    let code = code.trim().to_ascii_uppercase();
    let Some(guest) = chats.redeem_code(&code, oldest_code(), Timestamp::now()).await? else {
        let error = CommandError::new(Exit::Failed, format!("there is no code {code}"));
        return Err(
            error.with_hint("a code is valid for an hour; have them write to the bot again")
        );
    };
    let who = format!("{}:{}", guest.platform, guest.id);
    let subject = format!("let in {who}");
    HomeStore::record_audit(&app.home, app.record_location(), AuditAction::Exposure, subject).await;
    print::line(&format!("{} ({who}) may talk now", guest.name))
}

async fn revoke(app: &App, chats: &SqliteChats, who: &str) -> Result<Exit, CommandError> {
    let Some((platform, id)) = who.split_once(':') else {
        return Err(CommandError::usage(format!("`{who}` is not PLATFORM:ID")));
    };
    if chats.remove_guest(platform, id).await? {
        HomeStore::record_audit(
            &app.home,
            app.record_location(),
            AuditAction::Exposure,
            format!("shut out {who}"),
        )
        .await;
        return print::line(&format!("{who} may not talk any more"));
    }
    let is_listed =
        app.config.channels().iter().any(|(name, fields)| {
            *name.0 == *platform && fields.allow.iter().any(|one| *one.0 == *id)
        });
    let error = CommandError::new(Exit::Failed, format!("{who} was not let in by a code"));
    Err(if is_listed {
        error.with_hint("they are in `allow` of config.yaml; remove them there")
    } else {
        error.with_hint("`angelia access list` shows who may talk")
    })
}
