//! The configured channels and webhooks, and checks that depend on other settings.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use angelia_frontends::chat::{ChannelSettings, ChatPlace, EVERY_GROUP, webhook};

use super::{
    environment::Environment,
    load::Config,
    problem::Problem,
    types::{
        ChannelFields, ChannelName, ChatId, FixedPath, HookFields, HookName, Mode, ProfileName,
        expand_home,
    },
};
use crate::platforms::{describe_missing_platform, find_platform};

impl Config {
    pub(crate) const fn channels(&self) -> &BTreeMap<ChannelName, ChannelFields> {
        &self.effective.channels
    }

    pub(crate) const fn hooks_in(&self) -> &BTreeMap<HookName, HookFields> {
        &self.effective.hooks_in
    }

    /// Checks that the platforms are known, the profiles exist and the folders can be found.
    pub(super) fn check_channels(&self, home: Option<&Path>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (ChannelName(name), fields) in &self.effective.channels {
            let path = format!("channels.{name}");
            problems.extend(self.check_platform(name, fields));
            let chats = fields.chats.iter().map(|(name, chat)| {
                (format!("{path}.chats.{}", name.0), chat.profile.as_ref(), chat.cwd.as_ref())
            });
            let own = (path.clone(), fields.profile.as_ref(), fields.cwd.as_ref());
            for (path, profile, cwd) in std::iter::once(own).chain(chats) {
                problems.extend(self.check_chat_place(&path, profile, cwd, home));
            }
        }
        problems.extend(self.check_hooks(home));
        problems
    }

    /// Checks that the platform exists and uses the given secrets.
    fn check_platform(&self, name: &str, fields: &ChannelFields) -> Option<Problem> {
        let origin = |keys: &[&str]| {
            self.tree.at(keys.iter().copied()).map_or(&self.tree.origin, |node| &node.origin)
        };
        let path = format!("channels.{name}");
        let problem = |what: String| Problem::new(origin(&["channels", name]), &path, what);
        let platform = find_platform(name);
        if fields.command.is_some() {
            return check_program(name, fields).map(problem);
        }
        if !fields.env.is_empty() {
            return Some(problem("has `env`, which is for channels with a `command`".to_owned()));
        }
        let Some(platform) = platform else {
            return Some(problem(describe_missing_platform(name)));
        };
        let is_known = |key: &str| platform.secrets.iter().any(|secret| secret.key == key);
        let (foreign, _) = fields.secrets().find(|(key, _)| !is_known(key))?;
        let known: Vec<&str> = platform.secrets.iter().map(|secret| secret.key).collect();
        let what = format!("is not a key of {name}, which has: {}; remove it", known.join(", "));
        let origin = origin(&["channels", name, foreign]);
        Some(Problem::new(origin, &format!("{path}.{foreign}"), what))
    }

    fn check_hooks(&self, home: Option<&Path>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (HookName(name), fields) in &self.effective.hooks_in {
            let path = format!("hooks_in.{name}");
            if fields.secret.is_none() {
                let origin = self.tree.at(["hooks_in", name]);
                let origin = origin.map_or(&self.tree.origin, |node| &node.origin);
                let what = "has no `secret`; anybody could start turns without one";
                problems.push(Problem::new(origin, &path, what));
            }
            problems.extend(self.check_chat_place(&path, fields.profile.as_ref(), None, home));
        }
        problems
    }

    /// Returns this configuration with the profile in model mode, unless the profile sets its mode itself.
    pub(crate) fn in_model_mode(&self, profile: Option<&str>) -> Self {
        let name = profile.unwrap_or_else(|| self.default_profile());
        let mut changed = self.clone();
        let is_set = self.tree.at(["profiles", name, "mode"]).is_some();
        if let Some(entry) = changed.profiles.get_mut(name).filter(|_| !is_set) {
            for (_, profile) in &mut entry.candidates {
                profile.mode = Mode::Model;
                // In model mode, the folder is our own.
                profile.cwd = None;
            }
        }
        changed
    }

    fn check_chat_place(
        &self,
        path: &str,
        profile: Option<&ProfileName>,
        cwd: Option<&FixedPath>,
        home: Option<&Path>,
    ) -> Option<Problem> {
        let origin = |key: &str| {
            let keys = path.split('.').chain([key]);
            self.tree.at(keys).map_or(&self.tree.origin, |node| &node.origin)
        };
        if let Some(ProfileName(name)) = profile.filter(|name| !self.profiles.contains_key(&name.0))
        {
            let what =
                format!("there is no profile `{name}`; add it to `profiles`, or name another one");
            return Some(Problem::new(origin("profile"), &format!("{path}.profile"), what));
        }
        let cwd = cwd?;
        if expand_home(&cwd.0, home).is_none() {
            let what = "starts with ~/ and HOME is not set; set it, or write the whole path";
            return Some(Problem::new(origin("cwd"), &format!("{path}.cwd"), what));
        }
        None
    }
}

/// Returns what is wrong with a channel whose adapter is a program.
fn check_program(name: &str, fields: &ChannelFields) -> Option<String> {
    if find_platform(name).is_some() || name == webhook::PLATFORM {
        return Some(format!("has a `command`, but `{name}` is a platform; give it another name"));
    }
    if let Some((key, _)) = fields.secrets().next() {
        return Some(format!("has a `command`, so `{key}` belongs in `env`"));
    }
    let has_url = fields.base_url.is_some();
    has_url.then(|| "has a `command`, so `base_url` is an argument of it, or in `env`".to_owned())
}

/// Returns the settings of a platform. Hermes' variables fill in what the file does not set.
pub(crate) fn channel_settings(
    name: &str,
    fields: &ChannelFields,
    environment: &Environment,
) -> ChannelSettings {
    let home = environment.home();
    let folder = |path: &Option<FixedPath>| {
        path.as_ref().and_then(|path| expand_home(&path.0, home.as_deref()))
    };
    let profile = |name: &Option<ProfileName>| name.as_ref().map(|name| Arc::clone(&name.0));
    let ids = |ids: &[ChatId]| ids.iter().map(|id| Arc::clone(&id.0)).collect::<Vec<_>>();
    let mut allow = ids(&fields.allow);
    if allow.is_empty()
        && let Some(platform) = find_platform(name)
        && let Some(listed) = environment.non_empty(platform.allow_variable)
    {
        let listed = listed.to_string_lossy();
        allow.extend(listed.split(',').map(str::trim).filter(|id| !id.is_empty()).map(Arc::from));
    }
    let mut groups = ids(&fields.groups);
    if groups.is_empty() {
        // Hermes has no list of groups, but one policy for all. In any case, `allow` decides who may talk
        // there.
        let variable = format!("{}_GROUP_POLICY", name.to_ascii_uppercase().replace('-', "_"));
        let policy = environment.non_empty(&variable);
        if policy.is_some_and(|policy| policy == "allowlist" || policy == "open") {
            groups.push(EVERY_GROUP.into());
        }
    }
    ChannelSettings {
        allow,
        roles: ids(&fields.roles),
        groups,
        approvers: ids(&fields.approvers),
        place: ChatPlace {
            profile: profile(&fields.profile),
            cwd: folder(&fields.cwd),
            busy: Some(fields.busy.into()),
        },
        chats: fields
            .chats
            .iter()
            .map(|(chat, one)| {
                let (profile, cwd) = (profile(&one.profile), folder(&one.cwd));
                (Arc::clone(&chat.0), ChatPlace { profile, cwd, busy: one.busy.map(Into::into) })
            })
            .collect(),
    }
}
