//! The chat platforms that this program knows. To add a platform, add a row to [`PLATFORMS`]: its secrets,
//! the instructions for obtaining them, and how its adapter is built.

use std::{collections::BTreeMap, fmt, sync::Arc};

use angelia_core::ports::{Channel, Clock};
use angelia_frontends::chat::{
    dingtalk::{DingTalk, DingTalkSecrets},
    discord::Discord,
    feishu::Feishu,
    matrix::{Matrix, MatrixSecrets},
    mattermost::Mattermost,
    slack::Slack,
    telegram::Telegram,
    wecom::Wecom,
};

use crate::clock::SystemClock;

/// Every platform, by name.
pub(crate) const PLATFORMS: &[Platform] =
    &[TELEGRAM, SLACK, DISCORD, FEISHU, DINGTALK, WECOM, MATRIX, MATTERMOST];

/// A chat platform.
pub(crate) struct Platform {
    /// The part of an address before the colon, and the key in `channels`.
    pub(crate) name: &'static str,
    pub(crate) secrets: &'static [PlatformSecret],
    /// Set if anybody can run a server, so that the owner must name it.
    pub(crate) server: Option<PlatformServer>,
    /// The variable in which Hermes lists the people who may talk.
    pub(crate) allow_variable: &'static str,
    /// How to obtain the secrets, for `channels add`.
    pub(crate) steps: &'static str,
    pub(crate) build: fn(&AdapterParts<'_>) -> Result<Arc<dyn Channel>, String>,
}

/// A value that the platform needs from the owner.
pub(crate) struct PlatformSecret {
    /// Its key in the configuration.
    pub(crate) key: &'static str,
    /// The variable that other programs use for it.
    pub(crate) variable: &'static str,
    /// What to call the value when asking for it.
    pub(crate) label: &'static str,
    pub(crate) is_optional: bool,
}

/// The server of a platform, called `base_url` in the configuration.
pub(crate) struct PlatformServer {
    /// The variable that other programs use for it.
    pub(crate) variable: &'static str,
    /// What to call the server when asking for it.
    pub(crate) label: &'static str,
}

/// The parts from which an adapter is built.
pub(crate) struct AdapterParts<'a> {
    /// The values of [`Platform::secrets`], by key.
    pub(crate) secrets: &'a BTreeMap<&'static str, String>,
    pub(crate) base_url: Option<&'a str>,
}

impl AdapterParts<'_> {
    /// Returns a required secret.
    pub(crate) fn secret(&self, key: &str) -> Result<&str, String> {
        let found = self.secrets.get(key).map(String::as_str);
        found.ok_or_else(|| format!("`{key}` is missing"))
    }

    /// Returns the server of a platform that has no fixed one.
    pub(crate) fn server(&self) -> Result<&str, String> {
        self.base_url.ok_or_else(|| "`base_url` is missing".to_owned())
    }

    #[expect(clippy::unused_self, reason = "an adapter gets everything from its parts")]
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
}

/// Finds a platform by name.
pub(crate) fn find_platform(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}

/// Says why there is no such platform. The text follows the platform's name.
pub(crate) fn describe_missing_platform(name: &str) -> String {
    if name == "weixin" {
        // The vendor has not said who may use the protocol, so we do not use it.
        return "is not there yet: personal Weixin has a protocol for bots, which lets us give our own name, but does \
                not say whether programs other than its own plugin may use it; use wecom instead"
            .to_owned();
    }
    let known = platform_names();
    format!(
        "is not a platform of this version; known: {known}; a custom channel needs a `command` (docs/chat.md)"
    )
}

/// Lists the names of the platforms, for errors.
pub(crate) fn platform_names() -> String {
    PLATFORMS.iter().map(|platform| platform.name).collect::<Vec<_>>().join(", ")
}

const TELEGRAM: Platform = Platform {
    name: "telegram",
    secrets: &[PlatformSecret {
        key: "token",
        variable: "TELEGRAM_BOT_TOKEN",
        label: "the bot's token",
        is_optional: false,
    }],
    server: None,
    allow_variable: "TELEGRAM_ALLOWED_USERS",
    steps: "1. In Telegram, write to @BotFather: /newbot, then a name and a user name for the bot.\n\
            2. It answers with a token such as 123456:ABC…; paste it here.\n\
            3. For groups: add the bot to the group, and its id to `groups` in config.yaml. The bot sees \
            commands, mentions and replies there; /setprivacy of @BotFather changes that.",
    build: |parts| {
        let bot = Telegram::new(parts.secret("token")?, parts.base_url, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

const SLACK: Platform = Platform {
    name: "slack",
    secrets: &[
        PlatformSecret {
            key: "bot_token",
            variable: "SLACK_BOT_TOKEN",
            label: "the bot's token (xoxb-…)",
            is_optional: false,
        },
        PlatformSecret {
            key: "app_token",
            variable: "SLACK_APP_TOKEN",
            label: "the app's token (xapp-…)",
            is_optional: false,
        },
    ],
    server: None,
    allow_variable: "SLACK_ALLOWED_USERS",
    steps: "1. On https://api.slack.com/apps: Create New App, From scratch.\n\
            2. Socket Mode: turn it on. It makes a token of the app with the scope connections:write, xapp-….\n\
            3. OAuth & Permissions, Bot Token Scopes: app_mentions:read, chat:write, im:history, \
            channels:history, groups:history, files:read, files:write, and users:read for people's names.\n\
            4. Event Subscriptions: turn them on; subscribe to the bot events message.im, app_mention, \
            message.channels and message.groups.\n\
            5. Interactivity & Shortcuts: turn it on, or buttons do nothing.\n\
            6. App Home: turn the Messages Tab on, and allow people to send messages from it.\n\
            7. Install App: install it, and copy the Bot User OAuth Token, xoxb-….\n\
            8. For channels: invite the bot (/invite), and add the channel's id to `groups` in config.yaml.",
    build: |parts| {
        let slack =
            Slack::new(parts.secret("bot_token")?, parts.secret("app_token")?, parts.base_url);
        Ok(Arc::new(slack.map_err(|error| error.to_string())?))
    },
};

const DISCORD: Platform = Platform {
    name: "discord",
    secrets: &[PlatformSecret {
        key: "token",
        variable: "DISCORD_BOT_TOKEN",
        label: "the bot's token",
        is_optional: false,
    }],
    server: None,
    allow_variable: "DISCORD_ALLOWED_USERS",
    steps: "1. At https://discord.com/developers/applications: New Application, a name, Create.\n\
            2. Page Bot: enable \"Message Content Intent\" under Privileged Gateway Intents, and save.\n\
            3. Page Installation: Guild Install with the scopes `bot` and `applications.commands`, and the permissions \
            View Channels, Send Messages, Send Messages in Threads, Attach Files and Read Message History; open \
            the install link and add the bot to a server. People can write to it directly if they share a server \
            with it.\n\
            4. Page Bot: Reset Token, and paste the token here.\n\
            5. For channels of a server: add their ids to `groups` in config.yaml; a channel covers its threads. \
            Ids are copied from the context menu when Developer Mode is on (User Settings, Advanced).",
    build: |parts| {
        let bot = Discord::new(parts.secret("token")?, parts.base_url, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

const FEISHU: Platform = Platform {
    name: "feishu",
    secrets: &[
        PlatformSecret {
            key: "app_id",
            variable: "FEISHU_APP_ID",
            label: "the app's ID (App ID)",
            is_optional: false,
        },
        PlatformSecret {
            key: "app_secret",
            variable: "FEISHU_APP_SECRET",
            label: "the app's secret (App Secret)",
            is_optional: false,
        },
    ],
    server: None,
    allow_variable: "FEISHU_ALLOWED_USERS",
    steps: "1. On https://open.feishu.cn/app make a custom app, and add the ability \"Bot\". For Lark it is \
            https://open.larksuite.com/app, and `--base-url https://open.larksuite.com`.\n\
            2. \"Permissions & Scopes\": im:message:send_as_bot, im:message.p2p_msg:readonly, \
            im:message.group_at_msg:readonly, im:resource and cardkit:card:write; also \
            contact:user.base:readonly for names, im:chat:readonly for buttons in old chats and \
            application:application:self_manage, so that this program can check the set-up.\n\
            3. \"Credentials & Basic Info\": copy the App ID and the App Secret, and paste them here.\n\
            4. \"Events & Callbacks\", \"Event configuration\": receive events through a persistent \
            connection, and add im.message.receive_v1 (and im.message.recalled_v1). Then the same on the tab \
            \"Callback configuration\", with card.action.trigger: without it buttons do nothing.\n\
            5. \"Version Management & Release\": make a version, and release it.\n\
            6. For groups: add the bot to the group, and its id (oc_…) to `groups` in config.yaml.",
    build: |parts| {
        let (app_id, app_secret) = (parts.secret("app_id")?, parts.secret("app_secret")?);
        let bot = Feishu::new(app_id, app_secret, parts.base_url, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

const DINGTALK: Platform = Platform {
    name: "dingtalk",
    secrets: &[
        PlatformSecret {
            key: "client_id",
            variable: "DINGTALK_CLIENT_ID",
            label: "the client id of the app",
            is_optional: false,
        },
        PlatformSecret {
            key: "client_secret",
            variable: "DINGTALK_CLIENT_SECRET",
            label: "the client secret of the app",
            is_optional: false,
        },
        PlatformSecret {
            key: "card_template_id",
            variable: "DINGTALK_CARD_TEMPLATE_ID",
            label: "the id of a template for cards",
            is_optional: true,
        },
    ],
    server: None,
    allow_variable: "DINGTALK_ALLOWED_USERS",
    steps: "1. In open-dev.dingtalk.com, create an internal app of your organisation, and add the capability Robot.\n\
            2. On the page of the robot, choose Stream mode for messages, and save.\n\
            3. Under Permissions, grant qyapi_robot_sendmsg (send messages); for cards also \
            Card.Instance.Write and Card.Streaming.Write.\n\
            4. Publish a version of the app, whose audience includes you; without it nothing arrives.\n\
            5. Under Credentials, copy the client id and the client secret, and paste them here.\n\
            6. For buttons and answers that grow, set card_template_id in config.yaml to an AI card of \
            open-dev.dingtalk.com/fe/card, or to the public 382e4302-551d-4880-bf29-a30acfab2e71.schema.\n\
            7. For groups: add the robot to the group, and the conversation's id, which the log shows when \
            somebody mentions the robot, to `groups` in config.yaml.",
    build: |parts| {
        let secrets = DingTalkSecrets {
            client_id: parts.secret("client_id")?,
            client_secret: parts.secret("client_secret")?,
            card_template_id: parts.secrets.get("card_template_id").map(String::as_str),
        };
        let robot = DingTalk::new(secrets, parts.base_url, parts.clock());
        Ok(Arc::new(robot.map_err(|error| error.to_string())?))
    },
};

const WECOM: Platform = Platform {
    name: "wecom",
    secrets: &[
        PlatformSecret {
            key: "bot_id",
            variable: "WECOM_BOT_ID",
            label: "the id of the bot",
            is_optional: false,
        },
        PlatformSecret {
            key: "secret",
            variable: "WECOM_SECRET",
            label: "the secret of its long connection",
            is_optional: false,
        },
    ],
    server: None,
    allow_variable: "WECOM_ALLOWED_USERS",
    steps: "1. In the app WeCom: Workbench, AI bots (智能机器人), create a bot by hand.\n\
            2. In its settings choose API mode, with a long connection (长连接), not with a callback address.\n\
            3. Copy the bot's id and the secret of the long connection, and paste them here. A bot has one connection: \
            another program with the same secret takes it away.\n\
            4. Set who may see the bot, and save. Then open a chat with it and write something: it cannot write first.\n\
            5. For groups: add the bot to the group, mention it there, and add the chat's id, which the log then \
            shows, to `groups` in config.yaml.",
    build: |parts| {
        let (bot_id, secret) = (parts.secret("bot_id")?, parts.secret("secret")?);
        let bot = Wecom::new(bot_id, secret, parts.base_url, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

const MATRIX: Platform = Platform {
    name: "matrix",
    secrets: &[
        PlatformSecret {
            key: "token",
            variable: "MATRIX_ACCESS_TOKEN",
            label: "the bot's access token",
            is_optional: false,
        },
        PlatformSecret {
            key: "user_id",
            variable: "MATRIX_USER_ID",
            label: "the bot's user id (@bot:example.org)",
            is_optional: true,
        },
    ],
    server: Some(PlatformServer {
        variable: "MATRIX_HOMESERVER",
        label: "the address of the homeserver (https://matrix.example.org)",
    }),
    allow_variable: "MATRIX_ALLOWED_USERS",
    steps: "1. Make an account for the bot on your homeserver, and log it in once, for instance in a private window \
            of Element.\n\
            2. In Element: All settings, Help & About, Access Token; copy it, and the address of the homeserver beside \
            it. Then close the window without logging out, which would end the token.\n\
            3. Make a room WITHOUT encryption, and invite the bot; it joins on its own. Direct messages of Element \
            are encrypted, so make a new room, turn \"Enable end-to-end encryption\" off, and invite only the bot: a \
            room of you and the bot alone is a direct chat.\n\
            4. For rooms with more people: add the room's id (!…, in Room settings, Advanced) to `groups` in \
            config.yaml, in quotation marks.",
    build: |parts| {
        let secrets = MatrixSecrets {
            base_url: parts.server()?,
            token: parts.secret("token")?,
            user_id: parts.secrets.get("user_id").map(String::as_str),
        };
        let bot = Matrix::new(secrets, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

const MATTERMOST: Platform = Platform {
    name: "mattermost",
    secrets: &[PlatformSecret {
        key: "token",
        variable: "MATTERMOST_TOKEN",
        label: "the bot's token",
        is_optional: false,
    }],
    server: Some(PlatformServer {
        variable: "MATTERMOST_URL",
        label: "the address of the server (https://chat.example.org)",
    }),
    allow_variable: "MATTERMOST_ALLOWED_USERS",
    steps: "1. In System Console, Integrations, Bot Accounts: enable the creation of bot accounts (an administrator does \
            that once).\n\
            2. In the menu of the product: Integrations, Bot Accounts, Add Bot Account; a name, the role Member. Copy the \
            token that it shows once.\n\
            3. Add the bot to your team: Invite People, then its name. Now people can write to it directly.\n\
            4. For channels: add the bot to the channel, and the channel's id (in View Info) to `groups` in config.yaml.",
    build: |parts| {
        let bot = Mattermost::new(parts.server()?, parts.secret("token")?, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
