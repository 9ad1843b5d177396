//! Which rule a message meets, and what that rule asks for.

use std::sync::Arc;

use regex::Regex;

use super::{Roles, Seen, Template};

/// What `bus-rules.yaml` says.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `bus.endpoint`.
    pub endpoint: Option<Arc<str>>,
    /// In their order; the first that matches decides.
    pub callbacks: Vec<Rule>,
    pub roles: Roles,
}

#[derive(Clone, Debug)]
pub struct Rule {
    /// Where it stands in its file.
    pub line: u64,
    pub matches: Match,
    pub print: bool,
    pub print_format: Format,
    /// The message becomes a turn.
    pub context: bool,
    pub context_format: Format,
    /// For the shell.
    pub command: Option<Arc<str>>,
    /// Who handles a message that becomes a turn.
    pub profile: Option<Arc<str>>,
}

/// What a rule wants of a message; all of it must hold. One that wants nothing matches nothing.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// `body.type`, exactly.
    pub kind: Option<Arc<str>>,
    /// Any of them.
    pub from: Vec<NamePattern>,
    /// Any of them.
    pub channel: Vec<NamePattern>,
    /// Found anywhere in the text.
    pub text: Option<Regex>,
    pub verified: Option<bool>,
}

/// A name, or with `*` at its end the beginning of one.
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

/// How a message is put into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// A path: if a program is there, it finds the words.
    pub script: Option<Arc<str>>,
    pub template: Template,
}

impl Format {
    pub fn parse(text: &str) -> Self {
        let is_path = text.starts_with(['/', '~']);
        Self { script: is_path.then(|| text.trim_end().into()), template: Template::parse(text) }
    }

    /// What is said without the program: the template, unless that is nothing but the path.
    pub fn without_script(&self) -> Template {
        if self.script.is_some() && !self.template.has_placeholders() {
            return Template::text();
        }
        self.template.clone()
    }
}

impl Default for Format {
    fn default() -> Self {
        Self { script: None, template: Template::text() }
    }
}

/// What is to be done with one message.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The line of the rule that decided; none: no rule matched.
    pub line: Option<u64>,
    pub print: Option<Format>,
    pub context: Option<ToAgent>,
    pub command: Option<Arc<str>>,
}

/// A message for an agent.
#[derive(Clone, Debug)]
pub struct ToAgent {
    pub format: Format,
    pub profile: Option<Arc<str>>,
}

impl Match {
    pub fn wants_nothing(&self) -> bool {
        self.kind.is_none()
            && self.from.is_empty()
            && self.channel.is_empty()
            && self.text.is_none()
            && self.verified.is_none()
    }

    pub fn matches(&self, seen: &Seen) -> bool {
        let any = |patterns: &[NamePattern], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(name))
        };
        let channel = seen.channel.as_deref();
        !self.wants_nothing()
            && (self.kind.is_none() || self.kind == seen.kind)
            && any(&self.from, &seen.from)
            && (self.channel.is_empty() || channel.is_some_and(|name| any(&self.channel, name)))
            && self.text.as_ref().is_none_or(|text| text.is_match(&seen.text))
            && self.verified.is_none_or(|wanted| wanted == seen.verified)
    }
}

impl Rules {
    /// The first rule that matches decides. A message that no rule knows is shown: nothing is lost
    /// in silence.
    pub fn decide(&self, seen: &Seen) -> Decision {
        let Some(rule) = self.callbacks.iter().find(|rule| rule.matches.matches(seen)) else {
            return Decision { print: Some(Format::default()), ..Decision::default() };
        };
        let context = rule.context.then(|| ToAgent {
            format: rule.context_format.clone(),
            profile: rule.profile.clone(),
        });
        // What an agent is told is not shown as well.
        let print = (rule.print && !rule.context).then(|| rule.print_format.clone());
        Decision { line: Some(rule.line), print, context, command: rule.command.clone() }
    }
}
