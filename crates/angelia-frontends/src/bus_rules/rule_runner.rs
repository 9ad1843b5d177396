//! Applies the rules to one message: prints it, passes it to an agent, or runs a command.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::rules::{ColourMode, MessageFormat, RuleInput, Rules, strip_terminal_codes},
    model::{EndpointName, bus::BusMessage},
    ports::{Clock, CommandProgram, CommandRunner, CommandSpec},
};
use jiff::tz::TimeZone;

use super::{
    launcher::Launcher,
    live_rules::LiveRules,
    render::{FormatPurpose, message_heading, render_message},
};

/// Shows lines to the owner: on a terminal, or in the daemon's output.
pub trait Screen: Send + Sync + 'static {
    /// Returns whether the console shows colours.
    fn ink(&self) -> ColourMode;

    /// Returns whether messages are shown with their time and sender, unless a rule sets another
    /// format.
    fn has_headings(&self) -> bool {
        false
    }

    /// Shows a line that a rule asked for, or the default line when no rule matches.
    fn show(&self, line: &str);

    /// Shows a notice about the bus itself.
    fn show_notice(&self, line: &str);
}

/// Applies the rules to the messages of an endpoint.
#[derive(Clone)]
pub struct RuleRunner {
    pub rules: Arc<LiveRules>,
    pub commands: Arc<dyn CommandRunner>,
    pub launcher: Launcher,
    pub screen: Arc<dyn Screen>,
    pub clock: Arc<dyn Clock>,
    pub zone: TimeZone,
}

/// The actions left to the caller after the rules were applied.
#[derive(Clone, Debug)]
pub struct PendingActions {
    pub input: RuleInput,
    /// A text for an agent, and the profile that the rule names.
    pub context: Option<(String, Option<Arc<str>>)>,
    /// The message's channel, and a line for it; if delivery fails, the line goes to the console.
    pub channel: Option<(Arc<str>, String)>,
}

impl RuleRunner {
    /// Applies the rules, except for actions that need an agent or a channel.
    pub async fn apply(&self, message: &BusMessage) -> PendingActions {
        let seen = RuleInput::from_message(message, self.clock.now());
        let rules = self.current_rules();
        let decision = rules.decide(&seen);
        if let Some(line) = &decision.command {
            let place = decision.line.unwrap_or_default();
            self.start_command(line, place, &seen, message);
        }
        let mut left = PendingActions { context: None, channel: None, input: seen };
        if let Some(to_agent) = decision.context {
            let text = self.render(&to_agent.format, &left.input, FormatPurpose::Context).await;
            left.context = Some((text, to_agent.profile));
        } else if let Some(format) = decision.print {
            let shown = left.input.for_terminal();
            if let Some(channel) = left.input.channel.clone() {
                let purpose = FormatPurpose::Print(ColourMode::Plain);
                let line = self.render(&format, &shown, purpose).await;
                left.channel = Some((channel, strip_terminal_codes(&line)));
            } else {
                let purpose = FormatPurpose::Print(self.screen.ink());
                let line = self.render(&format, &shown, purpose).await;
                if format == MessageFormat::default() {
                    self.show_with_heading(&left.input, &line);
                } else {
                    self.screen.show(&line);
                }
            }
        }
        left
    }

    /// Shows the text of a message, preceded by its time and sender if the screen has headings.
    pub fn show_with_heading(&self, seen: &RuleInput, text: &str) {
        if self.screen.has_headings() {
            let heading = message_heading(seen, self.clock.now(), &self.zone, self.screen.ink());
            self.screen.show(&format!("{heading}{text}"));
        } else {
            self.screen.show(text);
        }
    }

    /// Returns the rules in force, and shows problems with their file to the owner.
    pub fn current_rules(&self) -> Arc<Rules> {
        let (rules, reports) = self.rules.current();
        for report in reports {
            self.screen.show_notice(&report.to_string());
        }
        rules
    }

    async fn render(
        &self,
        format: &MessageFormat,
        seen: &RuleInput,
        purpose: FormatPurpose,
    ) -> String {
        render_message(self.commands.as_ref(), format, seen, &self.zone, purpose).await
    }

    fn start_command(&self, line: &Arc<str>, place: u64, seen: &RuleInput, message: &BusMessage) {
        let whole = String::from_utf8_lossy(&message.envelope);
        let command = CommandSpec {
            program: CommandProgram::Shell(Arc::clone(line)),
            env: vec![
                ("MESSAGE", whole.as_ref().into()),
                ("TYPE", seen.kind.clone().unwrap_or_default()),
                ("FROM", Arc::clone(&seen.from)),
                ("CHANNEL", seen.channel.clone().unwrap_or_default()),
                ("TEXT", Arc::clone(&seen.text)),
                ("TS", seen.at.as_second().to_string().into()),
            ],
            input: None,
            timeout: self.launcher.time_limit(),
        };
        let what = format_args!("the command in line {place} of the rules");
        self.launcher.start(line, what, command);
    }
}

impl std::fmt::Debug for RuleRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleRunner").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Returns the paths of the rules file in order of preference: ours, then that of hermes-bus.
pub fn rules_paths(angelia_home: PathBuf, hermes_home: Option<PathBuf>) -> Vec<PathBuf> {
    let homes = std::iter::once(angelia_home).chain(hermes_home);
    homes.map(|home| home.join("bus-rules.yaml")).collect()
}

/// The sources for the name of our own endpoint, in order of preference.
#[derive(Clone, Debug, Default)]
pub struct EndpointHints<'a> {
    /// `HERMES_BUS_ENDPOINT`.
    pub variable: Option<&'a str>,
    /// `bus.endpoint` in the configuration.
    pub configured: Option<&'a str>,
    /// `bus.endpoint` in the rules.
    pub rules: Option<&'a str>,
    /// Whether the rules are those of Hermes.
    pub has_hermes_rules: bool,
    /// The profile whose directory is `HERMES_HOME`.
    pub profile: Option<&'a str>,
    /// The fallback name.
    pub default: &'a str,
    /// Whether the endpoint is a daemon that answers chats, not a terminal. If so, a name from
    /// Hermes ends in `-gateway`, as it does there.
    pub gateway: bool,
}

impl EndpointHints<'_> {
    /// Returns the first hint that is a valid endpoint name.
    pub fn name(&self) -> Option<EndpointName> {
        let hints = [
            (self.variable, true),
            (self.configured, false),
            (self.rules, self.has_hermes_rules),
            (self.profile, true),
            (Some(self.default), false),
        ];
        hints.into_iter().find_map(|(name, is_hermes)| {
            let name = name.filter(|name| !name.is_empty())?;
            let ending = if self.gateway && is_hermes { "-gateway" } else { "" };
            EndpointName::new(&format!("{name}{ending}")).ok()
        })
    }
}
