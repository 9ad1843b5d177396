//! `angelia schedule add`: builds a new schedule from the options.

use std::path::{Path, PathBuf};

use angelia_backends::file_times::RealFileTimes;
use angelia_core::{
    model::Trigger,
    ports::{ChannelAddress, FileTimes as _},
};
use angelia_frontends::{
    chat::webhook,
    http::{NewScheduleBody, find_zone},
};
use clap::Args;
use jiff::{Timestamp, tz::TimeZone};

use super::view;
use crate::{
    assemble::App,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::{ChannelFields, ChannelName},
    platforms::{find_platform, platform_names},
    records::Records,
    resolve,
};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("trigger").args(["at", "every", "watch"]))]
pub(crate) struct AddArgs {
    /// Five cron fields, unless an option says when to run, followed by the prompt.
    #[arg(required = true, num_args = 1..=2, value_names = ["CRON", "PROMPT"])]
    words: Vec<String>,

    /// Run once, at this time: `2026-01-31T09:00:00Z`, or `2026-01-31 09:00` in the zone.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,

    /// Run repeatedly, with this period: `90s`, `10m`, `2h`, `7d`; at least one second.
    #[arg(long, value_name = "PERIOD")]
    every: Option<String>,

    /// Run when this file, or one below this folder, has changed.
    #[arg(long, value_name = "PATH")]
    watch: Option<PathBuf>,

    /// The time zone, such as `Europe/Berlin`; this machine's by default.
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// The profile to use; `default` when none is named.
    #[arg(short, long)]
    profile: Option<String>,

    /// Continue this session each time; by default, each turn gets its own session.
    #[arg(short, long)]
    session: Option<String>,

    /// The directory the agent works in; the current directory by default.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Send the result to this channel (`webhook:CHAT`) or bus endpoint.
    #[arg(long, value_name = "CHANNEL|ENDPOINT")]
    to: Option<String>,

    /// What to do about times at which no daemon ran: run one turn for all of them, or none.
    #[arg(long, value_parser = ["skip", "run_once"], default_value = "run_once")]
    missed: String,

    /// What to do if a time comes due while an earlier turn of the schedule is running.
    #[arg(long, value_parser = ["skip", "queue"], default_value = "skip")]
    overlap: String,

    /// Print the schedule as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(app: &App, records: &Records, args: AddArgs) -> Result<Exit, CommandError> {
    let zone = find_zone(args.tz.as_deref()).map_err(|error| {
        CommandError::usage(format!("--tz: {error}"))
            .with_hint("write a name of the tz database, such as Europe/Berlin")
    })?;
    let (trigger, prompt) = read_trigger(&args, &zone)?;
    if let Trigger::Watch(path) = &trigger {
        RealFileTimes::new(app.home.dir()).read(path).map_err(CommandError::usage)?;
    }
    let is_known =
        |profile: &String| app.config.summaries().iter().any(|known| *known.name == **profile);
    // Skip this check if there is a daemon, because it has its own configuration.
    if let (Records::Store(_), Some(profile)) = (records, &args.profile)
        && !is_known(profile)
    {
        let message = format!("there is no profile `{profile}`");
        return Err(CommandError::usage(message).with_hint("`angelia config show` prints them"));
    }
    if let (Records::Store(_), Some(to)) = (records, &args.to) {
        check_platform(app, to)?;
    }
    let cwd = args.cwd.as_deref().map(existing_directory).transpose()?;
    let session = match &args.session {
        Some(text) => Some(find_session(records, text, &args).await?),
        None => None,
    };
    let body = NewScheduleBody {
        spec: trigger.to_string(),
        tz: trigger.zone().and_then(|zone| zone.iana_name()).map(str::to_owned),
        prompt: prompt.into(),
        profile: args.profile.as_deref().map(Into::into),
        session: session.map(Into::into),
        cwd,
        caller_cwd: std::env::current_dir().ok(),
        to: args.to.as_deref().map(Into::into),
        missed: Some(args.missed),
        overlap: Some(args.overlap),
    };
    // The daemon only refuses invalid options of this command.
    let added = records.add_schedule(body).await.map_err(|error| match error.exit {
        Exit::Failed => CommandError { exit: Exit::Usage, ..error },
        _ => error,
    })?;
    if matches!(records, Records::Store(_)) {
        print::note(
            "angelia: no daemon runs, so nothing will run\n  hint: `angelia start` starts one, and \
             `angelia service install` starts it at every login",
        );
    }
    if args.json {
        let mut out = Vec::new();
        print::json_line(&added, &mut out)?;
        return print::bytes(&out);
    }
    let next = view::next(&added, Timestamp::now(), &TimeZone::system());
    print::line(&format!("added {}; {next}", view::short(&added)))
}

/// Returns the trigger of the schedule, and the prompt.
fn read_trigger(args: &AddArgs, zone: &TimeZone) -> Result<(Trigger, String), CommandError> {
    let usage = |error: &dyn std::fmt::Display| CommandError::usage(error.to_string());
    let spec = match (&args.at, &args.every, &args.watch) {
        (Some(at), ..) => Some(format!("at {at}")),
        (_, Some(every), _) => Some(format!("every {every}")),
        (.., Some(path)) => {
            let path = std::path::absolute(path).map_err(|error| usage(&error))?;
            let path = path.to_str().ok_or_else(|| usage(&"--watch: this path is not Unicode"))?;
            Some(format!("watch {path}"))
        }
        _ => None,
    };
    let (spec, prompt) = match (spec, args.words.as_slice()) {
        (Some(spec), [prompt]) => (spec, prompt),
        (Some(_), _) => {
            return Err(usage(
                &"--at, --every and --watch say when; leave the cron expression out",
            )
            .with_hint("put the prompt in quotes"));
        }
        (None, [cron, prompt]) => (cron.clone(), prompt),
        (None, _) => {
            return Err(usage(&"say when the turn should run, and what it should do")
                .with_hint("for example: angelia schedule add \"0 9 * * 1-5\" \"What is new?\""));
        }
    };
    if prompt.trim().is_empty() {
        return Err(usage(&"the prompt is empty"));
    }
    let trigger = Trigger::parse(&spec, zone).map_err(|error| usage(&error))?;
    if matches!(trigger, Trigger::At(at) if at <= Timestamp::now()) {
        return Err(usage(&format!("--at: {} has passed", args.at.as_deref().unwrap_or_default())));
    }
    Ok((trigger, prompt.clone()))
}

/// Checks that a daemon could send a result to this destination. Only the daemon knows which
/// channels are set up.
fn check_platform(app: &App, to: &str) -> Result<(), CommandError> {
    if !to.contains(':') {
        return Ok(());
    }
    let hint = "a channel is `platform:chat`, an endpoint of the bus a name without `:`";
    let channel: ChannelAddress = to
        .parse()
        .map_err(|error| CommandError::usage(format!("--to: {error}")).with_hint(hint))?;
    let is_program = |name: &ChannelName, fields: &ChannelFields| {
        *name.0 == *channel.platform && fields.command.is_some()
    };
    if *channel.platform == *webhook::PLATFORM
        || find_platform(&channel.platform).is_some()
        || app.config.channels().iter().any(|(name, fields)| is_program(name, fields))
    {
        return Ok(());
    }
    let message = format!(
        "--to: there is no platform `{}`; there is: {}, {}",
        channel.platform,
        platform_names(),
        webhook::PLATFORM,
    );
    Err(CommandError::usage(message).with_hint(hint))
}

fn existing_directory(path: &Path) -> Result<PathBuf, CommandError> {
    let absolute = std::path::absolute(path).ok().filter(|path| path.is_dir());
    absolute.ok_or_else(|| {
        CommandError::usage(format!("cannot work in {}: this is not a directory", path.display()))
    })
}

/// Returns the text that names the session: an id, or the name of an existing or future session.
async fn find_session(
    records: &Records,
    text: &str,
    args: &AddArgs,
) -> Result<String, CommandError> {
    let Some(session) = resolve::find_session(records, text).await? else {
        resolve::check_new_name(text)?;
        return Ok(text.to_owned());
    };
    if args.profile.as_ref().is_some_and(|profile| *profile != session.profile) {
        let message =
            format!("the session was started with the profile `{}` and keeps it", session.profile);
        return Err(CommandError::usage(message)
            .with_hint("leave the option out, or choose another session"));
    }
    Ok(session.name.unwrap_or_else(|| session.id.to_string()))
}
