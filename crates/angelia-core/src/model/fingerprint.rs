//! Fingerprint of a launch: one hash per named component, so that the log can name the component
//! that prevented a process from being reused.

use sha2::{Digest, Sha256};

use super::{
    Content, HistoryMessage, MessagePart, NativeSettings, ReasoningEffort, Role, SessionSpec,
    SystemPrompt, ToolSet,
};

type ComponentHash = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaunchFingerprint {
    components: Vec<(&'static str, ComponentHash)>,
}

impl LaunchFingerprint {
    /// Hashes everything in the specification that a running process cannot change.
    pub fn of(spec: &SessionSpec) -> Self {
        let mut this = Self { components: Vec::with_capacity(16) };
        this.add("executor", [spec.executor.as_bytes()]);
        this.add("mode", [spec.mode.as_str().as_bytes()]);
        this.add("model", spec.model.iter().map(|model| model.as_bytes()));
        this.add("working directory", [spec.cwd.as_os_str().as_encoded_bytes()]);
        this.add("trust", [&[u8::from(spec.trust)][..]]);
        this.add("system prompt", system_parts(&spec.system));
        this.add("history", spec.history.iter().flat_map(message_parts));
        this.add(
            "caller's tools",
            spec.caller_tools.iter().flat_map(|tool| {
                [tool.name.as_bytes(), tool.description.as_bytes(), raw(&tool.input_schema)]
            }),
        );
        this.add("output schema", spec.output_schema.iter().map(raw));
        this.add("permissions", [spec.permissions.level.as_str().as_bytes()]);
        this.add("tools", tool_set_parts(&spec.tools));
        this.add(
            "MCP servers",
            spec.mcp_servers.iter().flat_map(|(name, value)| [name.as_bytes(), raw(value)]),
        );
        this.add(
            "environment",
            spec.env
                .iter()
                .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()])
                .chain(spec.env_pass.iter().map(|name| name.as_bytes())),
        );
        this.add("binary", spec.binary.iter().map(|path| path.as_os_str().as_encoded_bytes()));
        this.add("command", spec.command.iter().map(|word| word.as_bytes()));
        this.add("billing", [spec.billing.as_str().as_bytes()]);
        this.add("stable prompt", [&[u8::from(spec.stable_prompt)][..]]);
        this.add_native(&spec.native);
        this
    }

    /// Adds a component that only the executor knows, such as the version of its program.
    #[must_use]
    pub fn with<'a>(
        mut self,
        name: &'static str,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        self.add(name, parts);
        self
    }

    /// Removes components, for warm processes that get them only when a session takes the process.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.components.retain(|(name, _)| !names.contains(name));
        self
    }

    /// Returns the name of the first component that differs.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        if self == other {
            return None;
        }
        let named = |list: &Self, wanted: &str| {
            list.components.iter().find(|(name, _)| *name == wanted).map(|(_, hash)| *hash)
        };
        self.components
            .iter()
            .chain(&other.components)
            .map(|(name, _)| *name)
            .find(|name| named(self, name) != named(other, name))
    }

    /// Returns one hash over all components, in hexadecimal.
    pub fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        for (name, hash) in &self.components {
            hasher.update(name);
            hasher.update(hash);
        }
        format!("{:x}", hasher.finalize())
    }

    /// Adds the settings of the built-in loop. Agents that are programs leave them at their
    /// defaults, so their fingerprints have no such components.
    fn add_native(&mut self, native: &NativeSettings) {
        let default = NativeSettings::default();
        let requests =
            |of: &NativeSettings| (of.max_iterations, of.max_output_tokens, of.reasoning);
        if requests(native) != requests(&default) {
            let (max_iterations, max_output_tokens, reasoning) = requests(native);
            self.add(
                "request settings",
                [
                    &max_iterations.to_be_bytes()[..],
                    &max_output_tokens.unwrap_or_default().to_be_bytes(),
                    reasoning.map_or("", ReasoningEffort::as_str).as_bytes(),
                ],
            );
        }
        if !native.fallback.is_empty() {
            self.add("fallback", native.fallback.iter().map(|model| model.as_bytes()));
        }
        let limits = |of: &NativeSettings| {
            (of.sandbox, of.network, of.sandbox_read.clone(), of.sandbox_write.clone())
        };
        if limits(native) != limits(&default) {
            let mode = [native.sandbox.as_str().as_bytes(), &[u8::from(native.network)]];
            let (read, write) = (native.sandbox_read.iter(), native.sandbox_write.iter());
            let read = read.flat_map(|path| [&b"read"[..], path.as_os_str().as_encoded_bytes()]);
            let write = write.flat_map(|path| [&b"write"[..], path.as_os_str().as_encoded_bytes()]);
            self.add("sandbox", mode.into_iter().chain(read).chain(write));
        }
        if native.memory != default.memory {
            self.add("memory", [native.memory.as_str().as_bytes()]);
        }
        if native.compaction != default.compaction {
            let settings = native.compaction;
            self.add(
                "compaction",
                [
                    &settings.at_permille.to_be_bytes()[..],
                    &settings.protect_first_n.to_be_bytes(),
                    settings.on_summary_failure.as_str().as_bytes(),
                ],
            );
        }
    }

    fn add<'a>(&mut self, name: &'static str, parts: impl IntoIterator<Item = &'a [u8]>) {
        let mut hasher = Sha256::new();
        for part in parts {
            // Prefix each part with its length, so that different lists of parts cannot produce the
            // same bytes.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        self.components.push((name, hasher.finalize().into()));
    }
}

fn raw(json: &super::RawJson) -> &[u8] {
    json.get().as_bytes()
}

fn system_parts(system: &SystemPrompt) -> [&[u8]; 2] {
    match system {
        SystemPrompt::Default => [b"default", b""],
        SystemPrompt::Append(text) => [b"append", text.as_bytes()],
        SystemPrompt::Replace(text) => [b"replace", text.as_bytes()],
    }
}

fn tool_set_parts(tools: &ToolSet) -> Vec<&[u8]> {
    match tools {
        ToolSet::Default => vec![b"default"],
        ToolSet::All => vec![b"all"],
        ToolSet::None => vec![b"none"],
        ToolSet::List(names) => names.iter().map(|name| name.as_bytes()).collect(),
    }
}

fn message_parts(message: &HistoryMessage) -> Vec<&[u8]> {
    let mut parts: Vec<&[u8]> = vec![match message.role {
        Role::User => b"user",
        Role::Assistant => b"assistant",
    }];
    for part in &message.parts {
        match part {
            MessagePart::Content(content) => content_parts(content, &mut parts),
            MessagePart::Thinking { text, .. } => parts.extend([&b"thinking"[..], text.as_bytes()]),
            MessagePart::ToolUse { id, name, input } => {
                parts.extend([&b"use"[..], id.as_str().as_bytes(), name.as_bytes(), raw(input)]);
            }
            MessagePart::ToolResult { id, ok, content } => {
                let ok: &[u8] = if *ok { b"ok" } else { b"error" };
                parts.extend([&b"result"[..], id.as_str().as_bytes(), ok]);
                for content in content {
                    content_parts(content, &mut parts);
                }
            }
        }
    }
    parts
}

fn content_parts<'a>(content: &'a Content, parts: &mut Vec<&'a [u8]>) {
    match content {
        Content::Text(text) => parts.extend([&b"text"[..], text.as_bytes()]),
        Content::Image { media_type, data } => {
            parts.extend([&b"image"[..], media_type.as_bytes(), data]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CompactionSettings, Mode};

    #[test]
    fn a_difference_has_a_name() {
        let spec = SessionSpec::new("fake", "/project");
        let same = LaunchFingerprint::of(&spec);
        assert_eq!(same.difference(&LaunchFingerprint::of(&spec.clone())), None);

        let mut other = spec.clone();
        other.model = Some("large".into());
        assert_eq!(same.difference(&LaunchFingerprint::of(&other)), Some("model"));

        let mut other = spec.clone();
        other.mode = Mode::Model;
        other.system = SystemPrompt::Replace("be brief".into());
        let lean = ["mode", "system prompt"];
        let reduced = LaunchFingerprint::of(&other).without(&lean);
        assert_eq!(same.clone().without(&lean).difference(&reduced), None);
        assert_ne!(same.sha256(), LaunchFingerprint::of(&other).sha256());

        for (change, name) in [
            (NativeSettings { max_iterations: 1, ..NativeSettings::default() }, "request settings"),
            (
                NativeSettings { fallback: vec!["a/b".into()], ..NativeSettings::default() },
                "fallback",
            ),
            (NativeSettings { network: true, ..NativeSettings::default() }, "sandbox"),
            (
                NativeSettings {
                    compaction: CompactionSettings { protect_first_n: 0, ..Default::default() },
                    ..NativeSettings::default()
                },
                "compaction",
            ),
            (
                NativeSettings { sandbox_read: vec!["/a".into()], ..NativeSettings::default() },
                "sandbox",
            ),
        ] {
            let mut other = spec.clone();
            other.native = change;
            assert_eq!(same.difference(&LaunchFingerprint::of(&other)), Some(name));
        }

        let newer = same.clone().with("version", [&b"2"[..]]);
        assert_eq!(same.difference(&newer), Some("version"));
    }
}
