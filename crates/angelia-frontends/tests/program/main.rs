//! A channel whose adapter is a program, against one that keeps its platform in a folder. The program is a real
//! process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lines;
mod supervision;

use std::sync::Arc;

use angelia_core::{ports::Channel, task::TaskGroup};
use angelia_frontends::chat::program::{ProgramChannel, ProgramChannelParts};
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    folder_platform::FolderPlatform,
    owner_programs::OwnerPrograms,
};
use serde_json::json;

const PERSON: &str = "ada";
const TOKEN: &str = "the-token-of-the-folder";

fn adapter(command: &[String], abilities: Option<&str>) -> Arc<ProgramChannel> {
    let mut env = vec![("CHAT_TOKEN".into(), TOKEN.into())];
    env.extend(abilities.map(|json| ("ABILITIES".into(), json.into())));
    Arc::new(ProgramChannel::new(ProgramChannelParts {
        name: "folder".into(),
        command: command.iter().map(|word| word.as_str().into()).collect(),
        env,
        commands: Arc::new(OwnerPrograms::new().unwrap()),
        clock: Arc::new(SystemClock),
        tasks: TaskGroup::new(),
    }))
}

fn plain_adapter(platform: &FolderPlatform) -> Arc<ProgramChannel> {
    adapter(&platform.command(), None)
}

#[derive(Default)]
struct FakeFolder(FolderPlatform);

impl FakePlatform for FakeFolder {
    fn abilities(&self) -> PlatformAbilities {
        // The program gets plain text too, so no formatting is wrong; and it reads files itself.
        PlatformAbilities {
            formatting_refusals: false,
            file_limit: false,
            ..PlatformAbilities::ALL
        }
    }

    fn adapter(&self) -> Arc<dyn Channel> {
        plain_adapter(&self.0)
    }

    fn chat(&self) -> String {
        format!("chat-{PERSON}")
    }

    fn say(&self, text: &str) {
        self.0.say(PERSON, text);
    }

    fn edit_last(&self, text: &str) {
        let event = json!({"kind": "edited", "message_id": "said-1", "text": text, "direct": true});
        self.0.push_event(PERSON, event);
    }

    fn send_file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.file("upload"), bytes).unwrap();
        let files = json!([{"id": "upload", "name": name, "size": bytes.len()}]);
        let event = json!({"kind": "message", "message_id": "f1", "direct": true, "files": files});
        self.0.push_event(PERSON, event);
    }

    fn press(&self, label: &str) {
        self.0.press(PERSON, self.0.messages().last().unwrap(), label);
    }

    fn redeliver(&self) {
        self.0.act("again", 1);
    }

    fn push_garbage(&self) {
        self.0.act("garbage", 1);
    }

    fn is_acknowledged(&self) -> bool {
        self.0.is_acknowledged()
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.0.messages().into_iter();
        let labels = |buttons: Vec<(String, String)>| buttons.into_iter().map(|(label, _)| label);
        messages.map(|one| (one.text, labels(one.buttons).collect(), one.file)).collect()
    }

    fn limit_next_send(&self) {
        self.0.fail_next("limit");
    }

    fn refuse_next_formatting(&self) {}

    fn cut_next_send(&self) {
        self.0.fail_next("cut");
    }

    fn break_connection(&self) {
        self.0.act("die", 1);
    }

    fn block(&self) {
        std::fs::write(self.0.file("blocked"), "").unwrap();
    }
}

#[tokio::test]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeFolder::default()).await;
}

#[tokio::test]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeFolder::default()).await;
}
