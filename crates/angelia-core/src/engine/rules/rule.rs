//! Finds the rule that matches a message, and returns its actions.

use std::sync::Arc;

use regex::Regex;

use super::{Roles, RuleInput, Template};

/// The content of `bus-rules.yaml`.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `bus.endpoint`.
    pub endpoint: Option<Arc<str>>,
    /// In file order; the first rule that matches decides.
    pub callbacks: Vec<Rule>,
    pub roles: Roles,
}

#[derive(Clone, Debug)]
pub struct Rule {
    /// Line of the rule in its file.
    pub line: u64,
    pub conditions: RuleConditions,
    pub print: bool,
    pub print_format: MessageFormat,
    /// Turns the message into a turn of an agent.
    pub context: bool,
    pub context_format: MessageFormat,
    /// Shell command to run.
    pub command: Option<Arc<str>>,
    /// Profile of the agent that gets the message.
    pub profile: Option<Arc<str>>,
}

/// The conditions of a rule. All of them must hold; a rule without any condition matches nothing.
#[derive(Clone, Debug, Default)]
pub struct RuleConditions {
    /// Equal to `body.type`.
    pub kind: Option<Arc<str>>,
    /// At least one of these senders.
    pub from: Vec<NamePattern>,
    /// At least one of these channels.
    pub channel: Vec<NamePattern>,
    /// Matches anywhere in the text.
    pub text: Option<Regex>,
    pub verified: Option<bool>,
}

/// An exact name, or a prefix that ends in `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Arc<str>);

impl NamePattern {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => *self.0 == *name,
        }
    }
}

/// How a message is rendered as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFormat {
    /// Path of a program that renders the message, if it exists.
    pub script: Option<Arc<str>>,
    pub template: Template,
}

impl MessageFormat {
    pub fn parse(text: &str) -> Self {
        let is_path = text.starts_with(['/', '~']);
        Self { script: is_path.then(|| text.trim_end().into()), template: Template::parse(text) }
    }

    /// Returns the template to use when the program does not exist: the configured one, or the
    /// message text if the configured one is only the path.
    pub fn without_script(&self) -> Template {
        if self.script.is_some() && !self.template.has_placeholders() {
            return Template::message_text();
        }
        self.template.clone()
    }
}

impl Default for MessageFormat {
    fn default() -> Self {
        Self { script: None, template: Template::message_text() }
    }
}

/// The actions for one message.
#[derive(Clone, Debug, Default)]
pub struct RuleDecision {
    /// Line of the rule that matched; `None` if no rule matched.
    pub line: Option<u64>,
    pub print: Option<MessageFormat>,
    pub context: Option<AgentAction>,
    pub command: Option<Arc<str>>,
}

/// Passes the message to an agent.
#[derive(Clone, Debug)]
pub struct AgentAction {
    pub format: MessageFormat,
    pub profile: Option<Arc<str>>,
}

impl RuleConditions {
    pub fn is_empty(&self) -> bool {
        self.kind.is_none()
            && self.from.is_empty()
            && self.channel.is_empty()
            && self.text.is_none()
            && self.verified.is_none()
    }

    pub fn matches(&self, seen: &RuleInput) -> bool {
        let any = |patterns: &[NamePattern], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(name))
        };
        let channel = seen.channel.as_deref();
        !self.is_empty()
            && (self.kind.is_none() || self.kind == seen.kind)
            && any(&self.from, &seen.from)
            && (self.channel.is_empty() || channel.is_some_and(|name| any(&self.channel, name)))
            && self.text.as_ref().is_none_or(|text| text.is_match(&seen.text))
            && self.verified.is_none_or(|wanted| wanted == seen.verified)
    }
}

impl Rules {
    /// Returns the actions of the first rule that matches. A message that no rule matches is
    /// printed, so that nothing is lost silently.
    pub fn decide(&self, seen: &RuleInput) -> RuleDecision {
        let Some(rule) = self.callbacks.iter().find(|rule| rule.conditions.matches(seen)) else {
            return RuleDecision {
                print: Some(MessageFormat::default()),
                ..RuleDecision::default()
            };
        };
        let context = rule.context.then(|| AgentAction {
            format: rule.context_format.clone(),
            profile: rule.profile.clone(),
        });
        // A message that goes to an agent is not printed as well.
        let print = (rule.print && !rule.context).then(|| rule.print_format.clone());
        RuleDecision { line: Some(rule.line), print, context, command: rule.command.clone() }
    }
}
