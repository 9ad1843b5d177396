//! One message that has arrived: shown, told to an agent, given to a command, as the rules say.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::rules::{Ink, Seen, plain},
    model::{EndpointName, bus::Message},
    ports::{Clock, CommandLine, Commands, Program},
};
use jiff::tz::TimeZone;

use super::{
    launcher::Launcher,
    live::LiveRules,
    wording::{Purpose, words},
};

/// Where lines for people go: a terminal, or whoever follows the daemon.
pub trait Screen: Send + Sync + 'static {
    /// Whether it shows colours.
    fn ink(&self) -> Ink;

    /// A line that a rule, or the lack of one, asked for.
    fn show(&self, line: &str);

    /// Something its owner should know about the bus itself.
    fn remark(&self, line: &str);
}

/// What an endpoint's messages are handled with.
#[derive(Clone)]
pub struct Reactor {
    pub rules: Arc<LiveRules>,
    pub commands: Arc<dyn Commands>,
    pub launcher: Launcher,
    pub screen: Arc<dyn Screen>,
    pub clock: Arc<dyn Clock>,
    pub zone: TimeZone,
}

/// What is left to do after the rules have been followed here.
#[derive(Clone, Debug)]
pub struct Left {
    pub seen: Seen,
    /// Words for an agent, and the profile that a rule names.
    pub context: Option<(String, Option<Arc<str>>)>,
    /// Words for the message's channel; the terminal is for when that fails.
    pub channel: Option<(Arc<str>, String)>,
}

impl Reactor {
    /// Follows the rules, as far as that needs neither agents nor channels.
    pub async fn react(&self, message: &Message) -> Left {
        let seen = Seen::of(message, self.clock.now());
        let (rules, reports) = self.rules.current();
        for report in reports {
            self.screen.remark(&report.to_string());
        }
        let decision = rules.decide(&seen);
        if let Some(line) = &decision.command {
            let place = decision.line.unwrap_or_default();
            self.command(line, place, &seen, message);
        }
        let mut left = Left { context: None, channel: None, seen };
        if let Some(to_agent) = decision.context {
            let text = self.words(&to_agent.format, &left.seen, Purpose::Context).await;
            left.context = Some((text, to_agent.profile));
        } else if let Some(format) = decision.print {
            let shown = left.seen.for_terminal();
            if let Some(channel) = left.seen.channel.clone() {
                let purpose = Purpose::Print(Ink::Plain);
                let line = self.words(&format, &shown, purpose).await;
                left.channel = Some((channel, plain(&line)));
            } else {
                let purpose = Purpose::Print(self.screen.ink());
                let line = self.words(&format, &shown, purpose).await;
                self.screen.show(&line);
            }
        }
        left
    }

    async fn words(
        &self,
        format: &angelia_core::engine::rules::Format,
        seen: &Seen,
        purpose: Purpose,
    ) -> String {
        words(self.commands.as_ref(), format, seen, &self.zone, purpose).await
    }

    fn command(&self, line: &Arc<str>, place: u64, seen: &Seen, message: &Message) {
        let whole = String::from_utf8_lossy(&message.envelope);
        let command = CommandLine {
            program: Program::Shell(Arc::clone(line)),
            env: vec![
                ("MESSAGE", whole.as_ref().into()),
                ("TYPE", seen.kind.clone().unwrap_or_default()),
                ("FROM", Arc::clone(&seen.from)),
                ("CHANNEL", seen.channel.clone().unwrap_or_default()),
                ("TEXT", Arc::clone(&seen.text)),
                ("TS", seen.at.as_second().to_string().into()),
            ],
            input: None,
            limit: self.launcher.limit(),
        };
        let what = format_args!("the command of line {place} of the rules");
        self.launcher.start(what, command);
    }
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Which files hold the rules: ours, and when that is absent the one brought from elsewhere.
pub fn rules_paths(angelia_home: PathBuf, hermes_home: Option<PathBuf>) -> Vec<PathBuf> {
    let homes = std::iter::once(angelia_home).chain(hermes_home);
    homes.map(|home| home.join("bus-rules.yaml")).collect()
}

/// What an endpoint of ours is called.
#[derive(Clone, Debug, Default)]
pub struct EndpointHints<'a> {
    /// `HERMES_BUS_ENDPOINT`.
    pub variable: Option<&'a str>,
    /// `bus.endpoint` of the rules.
    pub rules: Option<&'a str>,
    /// The profile whose folder `HERMES_HOME` is.
    pub profile: Option<&'a str>,
    /// For a daemon that answers chats, not for somebody's terminal.
    pub gateway: bool,
}

impl EndpointHints<'_> {
    /// The first hint that is a name.
    pub fn name(&self) -> Option<EndpointName> {
        let hints = [self.variable, self.rules, self.profile, Some("hermes-bus")];
        let ending = if self.gateway { "-gateway" } else { "" };
        let mut names = hints.into_iter().flatten().filter(|name| !name.is_empty());
        names.find_map(|name| EndpointName::new(&format!("{name}{ending}")).ok())
    }
}
