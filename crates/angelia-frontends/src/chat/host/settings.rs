//! The settings of a channel, as the owner wrote them.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use angelia_core::ports::{Sender, split_thread};

/// Stands for all groups in the list of groups.
pub const EVERY_GROUP: &str = "*";

#[derive(Clone, Debug, Default)]
pub struct ChannelSettings {
    /// The ids of the people who may talk.
    pub allow: Vec<Arc<str>>,
    /// The ids of the roles whose members may talk too.
    pub roles: Vec<Arc<str>>,
    /// The ids of the group chats in which they may talk, or [`EVERY_GROUP`].
    pub groups: Vec<Arc<str>>,
    /// The ids of the people who may decide approvals.
    pub approvers: Vec<Arc<str>>,
    pub place: ChatPlace,
    /// Settings for individual chats, by `CHAT` or `CHAT#THREAD`.
    pub chats: BTreeMap<Arc<str>, ChatPlace>,
}

/// Where and how the turns of a chat run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatPlace {
    pub profile: Option<Arc<str>>,
    pub cwd: Option<PathBuf>,
    pub busy: Option<BusyPolicy>,
}

/// What happens to a message that arrives while a turn of its chat runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPolicy {
    /// The message steers the running turn.
    #[default]
    Steer,
    /// The message waits for the end of the turn.
    Queue,
    /// The message stops the running turn and then runs.
    Interrupt,
}

impl ChannelSettings {
    /// Returns the settings of a chat. Those of the thread take precedence over those of the chat,
    /// and these over those of the platform.
    pub(super) fn place_of(&self, chat: &str) -> ChatPlace {
        let (parent, _thread) = split_thread(chat);
        let found = [self.chats.get(chat), self.chats.get(parent), Some(&self.place)];
        let found = found.into_iter().flatten();
        found.fold(ChatPlace::default(), |place, next| ChatPlace {
            profile: place.profile.or_else(|| next.profile.clone()),
            cwd: place.cwd.or_else(|| next.cwd.clone()),
            busy: place.busy.or(next.busy),
        })
    }

    pub(super) fn is_approver(&self, sender: &str) -> bool {
        self.approvers.iter().any(|id| **id == *sender)
    }

    pub(super) fn is_listed(&self, sender: &Sender) -> bool {
        self.allow.contains(&sender.id) || sender.roles.iter().any(|role| self.roles.contains(role))
    }

    pub(super) fn is_group(&self, chat: &str) -> bool {
        let (parent, _thread) = split_thread(chat);
        self.groups.iter().any(|id| [parent, chat, EVERY_GROUP].contains(&&**id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_lets_its_people_in() {
        let settings = ChannelSettings {
            allow: vec!["1".into()],
            roles: vec!["staff".into()],
            ..ChannelSettings::default()
        };
        let person =
            |id: &str, role: &str| Sender { roles: vec![role.into()], ..Sender::new(id, "") };
        assert!(
            settings.is_listed(&person("1", "none")) && settings.is_listed(&person("2", "staff"))
        );
        assert!(!settings.is_listed(&person("staff", "1")), "an id is no role");
    }

    #[test]
    fn a_thread_has_its_own_settings_then_those_of_its_chat() {
        let place = |profile: Option<&str>, busy| ChatPlace {
            profile: profile.map(Into::into),
            cwd: None,
            busy,
        };
        let settings = ChannelSettings {
            groups: vec!["-5".into()],
            place: place(Some("all"), Some(BusyPolicy::Queue)),
            chats: [
                ("-5".into(), place(Some("chat"), None)),
                ("-5#2".into(), place(None, Some(BusyPolicy::Interrupt))),
            ]
            .into(),
            ..ChannelSettings::default()
        };
        assert_eq!(settings.place_of("-5#2"), place(Some("chat"), Some(BusyPolicy::Interrupt)));
        assert_eq!(settings.place_of("-5"), place(Some("chat"), Some(BusyPolicy::Queue)));
        assert_eq!(settings.place_of("7"), place(Some("all"), Some(BusyPolicy::Queue)));
        assert!(settings.is_group("-5#9") && !settings.is_group("7"));
        let all =
            ChannelSettings { groups: vec![EVERY_GROUP.into()], ..ChannelSettings::default() };
        assert!(all.is_group("7"));
    }
}
