//! Measures what a chat message costs the daemon: `cargo xtask bench chat [--only commands|turns]`.
//!
//! A thousand chats of the fake server of the Bot API write ten messages a second in all, through one
//! adapter. In the part `commands` each message is answered by the daemon itself: it is received, stored,
//! acknowledged, answered through the ledger of deliveries, and sent. In the part `turns` each one is a turn of
//! our own loop on a scripted model, whose answer is shown while it is written.
//!
//! - [`load`]: writes the messages, and counts what the platform got.

#[path = "../turn/daemon.rs"]
#[expect(dead_code, reason = "shared with another benchmark")]
mod daemon;
#[path = "../turn/direct.rs"]
#[expect(dead_code, reason = "shared with another benchmark")]
mod direct;
#[path = "../turn/http.rs"]
#[expect(dead_code, reason = "shared with another benchmark")]
mod http;
mod load;

use std::time::Duration;

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    benchmark::{
        BenchHome, BenchOptions,
        process_usage::cpu_time,
        report::{GoalReport, ms, print_line, print_section},
    },
    model_server::ModelServer,
    scripted_provider,
    telegram_server::{TOKEN, TelegramServer},
};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{
    daemon::{PROGRAM, SocketDaemon},
    load::{CHATS, ChatLoad},
};

/// The timing of a turn as its client sees it.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "shared with another benchmark")]
struct Timing {
    first: Duration,
    end: Duration,
}

const PARTS: [&str; 2] = ["commands", "turns"];

/// The processor time that a message may cost, and the memory of the daemon.
const MAX_MILLISECONDS: f64 = 2.0;
const MAX_MEGABYTES: f64 = 60.0;

fn main() -> Result<()> {
    let options = BenchOptions::read(&PARTS, &[])?;
    let mut report = GoalReport::default();
    for part in PARTS.into_iter().filter(|part| options.includes_part(part)) {
        measure(part, &mut report)?;
    }
    report.print_goals();
    Ok(())
}

fn measure(part: &str, report: &mut GoalReport) -> Result<()> {
    print_section(&format!("{part}: {CHATS} chats, ten messages a second"));
    let model = ModelServer::start().context("no scripted model")?;
    model.set_recording(false);
    let server = TelegramServer::start();
    let home = BenchHome::new(std::path::Path::new(PROGRAM), &model.base_url())?;
    let daemon = SocketDaemon::start_configured(&home, &config(&server, &model, &home))?;
    let text = if part == "commands" { "/whoami" } else { "ECHO:It is **done**, with `code`." };
    let load = ChatLoad::new(&server, text, daemon.pid());
    // The first messages pay for what is loaded once.
    load.warm_up()?;
    let before = cpu_time(daemon.pid())?;
    let figures = load.run()?;
    let spent = cpu_time(daemon.pid())?.saturating_sub(before);
    let cost = ms(spent) / f64::from(CHATS);
    print_line(&format!(
        "{cost:.3} ms of processor time per message; {:.1} MB; {} requests to the platform; answers after {:.0} ms (p50), \
         {:.0} ms (p99)",
        figures.megabytes,
        figures.requests,
        ms(figures.answered.median()),
        ms(figures.answered.p99()),
    ));
    report.at_most(&format!("{part}: processor time per message"), cost, MAX_MILLISECONDS, "ms");
    report.at_most(
        &format!("{part}: memory of the daemon"),
        figures.megabytes,
        MAX_MEGABYTES,
        "MB",
    );
    let over = f64::from(figures.over_budget);
    report.at_most(&format!("{part}: messages over the platform's rates"), over, 0.0, "messages");
    Ok(())
}

fn config(server: &TelegramServer, model: &ModelServer, home: &BenchHome) -> Value {
    let people: Vec<u32> = load::people().collect();
    let base_url = scripted_provider::base_url(model, Api::Chat);
    json!({
        "listen": "127.0.0.1:0",
        "providers": {(scripted_provider::NAME): {"api": Api::Chat.as_str(), "base_url": base_url,
            "models": {"m": {"context": 200_000}}}},
        "profiles": {"default": {"executor": "native", "model": scripted_provider::MODEL,
            "permissions": "unattended", "trust": "off", "cwd": home.work_dir()}},
        "channels": {"telegram": {"token": {"command": ["echo", TOKEN]}, "base_url": server.base_url(),
            "allow": people}},
    })
}
